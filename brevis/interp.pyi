from brevis.frame import Buffer

def run(
    program: Buffer, width: int, out: Buffer, offset: int | None = None, program_offset: int = 0
) -> None: ...
