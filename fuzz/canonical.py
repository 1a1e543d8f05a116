"""One form for one meaning: what is parsed and written again is what was there, of programs and of archives.

Of a program this holds for all that the reader accepts. Of an archive it holds where every record is of a
known kind and is not padding, as readers skip the others; layouts are written again as entries.
"""

import io

import gen
from driver import Target, run

from brevis import codec, errors, frame
from brevis.frame import CHUNK, LAYOUT, Block, MemberEnd, MemberStart, Metadata
from brevis.program import Program, write

KNOWN = {0x01, 0x02, 0x03, LAYOUT, 0x82}


def check_program(w, content_length, body):
    """Parse and write; also where the payloads are nonsense, which parsing does not look at."""
    try:
        term = Program.parse(body, w, content_length).term()
    except errors.Error:
        return "refused program"
    assert write(term) == body, f"w {w}, D {content_length}, program {body.hex()}"
    return "program"


def written_again(data):
    """The archive, made of the events of its parser."""
    out = []
    for event in codec.events(io.BytesIO(data).read):
        match event:
            case MemberStart():
                writer = frame.Writer(event.chunk_log2)
                out.append(writer.header())
            case Block():
                check_program(event.width, event.content_length, bytes(event.program))
                write_block = writer.chunk if event.tag == CHUNK else writer.layout
                out += write_block(event.content_length, event.content_crc, event.width, event.program)
                if event.tag == LAYOUT:
                    check_layout(event)
            case Metadata():
                out.append(writer.metadata(event))
            case MemberEnd():
                out.append(writer.finish())
    return b"".join(out)


def check_layout(block):
    try:
        entries = frame.read_layout(codec.decode_chunk(block), block.offset)
    except errors.Error:
        return
    base = entries[0].begin if entries else 0
    assert frame.read_layout(frame.write_layout(base, entries), block.offset) == entries


def check(data):
    try:
        again = written_again(data)
    except errors.Error:
        return "refused archive"
    units = gen.units(data)
    if any(any(unit[20:28]) if unit[:1] == b"\x89" else unit[3] not in KNOWN for unit in units):
        return "archive that readers skip parts of"
    assert again == data, data.hex()
    return "archive"


def draw(rng):
    yield from gen.archives(rng, 4)
    for draw_one in (gen.draw_program, gen.draw_program, gen.draw_code):
        w, size, code, payloads = draw_one(rng)
        yield w, size, code + payloads
        for _ in range(6):
            yield w, size, gen.refitted(rng, w, size, gen.changed(rng, code) + payloads)


def check_item(item):
    return check(item) if isinstance(item, bytes) else check_program(*item)


TARGET = Target("canonical", draw, check_item, check)

if __name__ == "__main__":
    run(TARGET)
