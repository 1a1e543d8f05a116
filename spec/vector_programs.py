"""Programs of vectors: from the notation of spec/vectors/README.md to code, payloads and words.

The encoders are written from FORMAT.md and share no code with any decoder.
"""

import itertools
import operator
import re
import struct
import sys
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from hashlib import sha256

# Bytes and bit strings (§1). A bit string is a text of 0 and 1, its first bit first.


def varint(value: int) -> bytes:
    low, rest = value % 128, value // 128
    return bytes([low + 128]) + varint(rest) if rest else bytes([low])


def bit_field(value: int, k: int) -> str:
    return f"{value % (1 << k):0{k}b}"[::-1] if k else ""


def exp_golomb(value: int, k: int) -> str:
    high = (value >> k) + 1  # 2^L + a
    zeros = high.bit_length() - 1
    return "0" * zeros + "1" + bit_field(high, zeros) + bit_field(value, k)


def zigzag(value: int) -> int:
    return 2 * value if value >= 0 else -2 * value - 1


def bytes_of_bits(bits: str) -> bytes:
    bits += "0" * (-len(bits) % 8)
    return int("0" + bits[::-1], 2).to_bytes(len(bits) // 8, "little")


def pack(words: Sequence[int], w: int) -> bytes:
    """The words as fields of w bits."""
    if w in (8, 64):
        fields = array("Q" if w == 64 else "B", words)
        if sys.byteorder == "big":
            fields.byteswap()
        return fields.tobytes()
    out = bytearray()
    for start in range(0, len(words), 8):
        group = sum(word << (w * i) for i, word in enumerate(words[start : start + 8]))
        out += group.to_bytes(w, "little")
    return bytes(out[: (w * len(words) + 7) // 8])


def data_bytes(text: str) -> bytes:
    """Bytes: hex, `00*9` for nine of it, "text", `v:300` for a varint, `u32:5`, `u64:5`."""
    out = b""
    for item in re.findall(r'"[^"]*"|\S+', text):
        kind, colon, value = item.partition(":")
        digits, _, times = item.partition("*")
        if item[0] == '"':
            out += item[1:-1].encode()
        elif colon:
            out += {"v": varint, "u32": partial(struct.pack, "<I"), "u64": partial(struct.pack, "<Q")}[kind](
                int(value, 0)
            )
        else:
            out += bytes.fromhex(digits) * int(times or 1)
    return out


# Entropy coders (§5)


def table_bits(
    symbols: list[int], numbers: list[int], w: int, p: int | None, gap: int, value: int, s: int
) -> str:
    """A table (§5.1), without padding. p is the precision, None for huffman."""
    bits = bit_field(s - 1, 12) + ("" if p is None else bit_field(p, 4))
    bits += bit_field(symbols[0], w) + bit_field(gap, 6) + bit_field(value, 4)
    ends = [i for i in range(1, len(symbols)) if symbols[i] != symbols[i - 1] + 1]
    for start, end in itertools.pairwise([0, *ends, len(symbols)]):
        if start:
            bits += exp_golomb(symbols[start] - symbols[start - 1] - 2, gap)
        bits += exp_golomb(end - start - 1, 1)
    for before, number in itertools.pairwise([0, *numbers]):
        bits += exp_golomb(zigzag(number - before), value)
    return bits


def huffman_codes(symbols: list[int], lengths: list[int]) -> dict[int, str]:
    """The canonical code of each symbol (§5.2)."""
    codes, code, before = {}, -1, 0
    for length, symbol in sorted(zip(lengths, symbols, strict=True)):
        code = (code + 1) << (length - before)
        codes[symbol], before = f"{code:0{length}b}", length
    return codes


def frequencies(numbers: list[int], p: int, k: int) -> tuple[int, ...]:
    """§5.3: the greatest takes what is missing to 2^k."""
    f = [v if v < 2 ** (p + 1) else (2**p + v % 2**p) << ((v >> p) - 1) for v in numbers]
    f[f.index(max(f))] += 2**k - sum(f)
    return tuple(f)


@lru_cache(4)
def slots_by_symbol(f: tuple[int, ...], k: int) -> list[list[int]]:
    """The slots of the i-th symbol, in ascending order, so by rank (§5.3)."""
    a = (len(f) - 1).bit_length()
    room = 1 << (k - a)
    rest = [*f, *[0] * ((1 << a) - len(f))]
    split, other = [room] * len(rest), list(range(len(rest)))
    small = [i for i, r in enumerate(rest) if r < room]
    large = [i for i, r in enumerate(rest) if r >= room]
    while small:
        i, h = small.pop(), large[-1]
        split[i], other[i] = rest[i], h
        rest[h] -= room - rest[i]
        if rest[h] < room:
            small.append(large.pop())
    slots: list[list[int]] = [[] for _ in rest]
    for i, y in itertools.product(range(len(rest)), range(room)):
        slots[i if y < split[i] else other[i]].append(i * room + y)
    return slots


def rans_block(indices: list[int], f: tuple[int, ...], k: int, lanes: int, final: int = 1 << 16) -> bytes:
    """One block, encoded from its last word to its first; the words are given as numbers of symbols."""
    slots = slots_by_symbol(f, k)
    states, renormalisation = [final] * lanes, []
    for i in reversed(range(len(indices))):
        j, x = indices[i], states[i % lanes]
        if x >= f[j] << (32 - k):
            renormalisation.append(x % (1 << 16))
            x >>= 16
        states[i % lanes] = (x // f[j] << k) + slots[j][x % f[j]]
    return struct.pack(f"<{lanes}I", *states) + pack(renormalisation[::-1], 16)


def zstd_frame(content: bytes) -> bytes:
    """A Zstandard frame (RFC 8878) of one segment, of raw blocks, or RLE blocks where all bytes are equal."""
    size = len(content)
    if size < 256:
        out = struct.pack("<IBB", 0xFD2FB528, 0x20, size)
    elif size < 65792:
        out = struct.pack("<IBH", 0xFD2FB528, 0x60, size - 256)
    else:
        out = struct.pack("<IBI", 0xFD2FB528, 0xA0, size)
    most = 1 << 17
    for start in range(0, size, most):
        block = content[start : start + most]
        rle = len(set(block)) == 1
        head = (start + most >= size) + 2 * rle + 8 * len(block)
        out += struct.pack("<I", head)[:3] + (block[:1] if rle else block)
    return out


# Programs (§4): a text becomes nodes, and nodes become code, payloads and words


@dataclass
class Node:
    name: str
    operands: list[int] = field(default_factory=list)
    written: bytes | None = None  # the operands as they stand in the code, where the source gives them
    named: dict[str, int] = field(default_factory=dict)  # operands that the source gives by name
    options: dict[str, str] = field(default_factory=dict)
    table: dict[int, int] = field(default_factory=dict)  # symbol: number
    words: list[str] = field(default_factory=list)
    children: list["Node"] = field(default_factory=list)
    marked: bool = False
    w: int = 0
    n: int = 0


OPCODES = {"raw": 1, "packed": 2, "huffman": 3, "rans": 4, "zstd": 5, "const": 16, "concat": 17, "repeat": 18}
OPCODES |= {"map": 19, "scan": 20, "merge": 21, "stretch": 22, "weave": 23, "lookup": 24}
FUNCTIONS = {"map": {"xor": 0, "add": 1, "zigzag": 2, "gray": 3, "rotate": 4, "ordered": 5}}
FUNCTIONS["scan"] = {"xor": 0, "add": 1}

TOKEN = re.compile(r"\s*(\[[^\]]*\]|\{[^}]*\}|[(),!]|\^\d+|\*\d+|[^\s()\[\]{},!^]+)")


def repeated(items: list[str]) -> list[str]:
    """`7*3` is `7` three times, `2..5` is 2 3 4 5, and `2..8/3` is 2 5 8."""
    out = []
    for item in items:
        item, _, times = item.partition("*")
        first, dots, last = item.partition("..")
        last, _, step = last.partition("/")
        span = [str(x) for x in range(int(first, 0), int(last, 0) + 1, int(step or 1))] if dots else [item]
        out += span * int(times or 1)
    return out


def parse_program(text: str) -> Node:
    tokens = TOKEN.findall(text)
    if "".join(tokens) != re.sub(r"\s", "", text) and not re.search(r"[\[{]", text):
        raise ValueError(f"not understood: {text}")
    root = parse_node(tokens)
    if tokens:
        raise ValueError(f"left over: {tokens} of {text}")
    return root


def parse_node(tokens: list[str]) -> Node:
    """name [operands] {options} ^nested words (children), with ! ahead where the fault is."""
    marked = tokens[0] == "!"
    if marked:
        tokens.pop(0)
    node = outer = Node(tokens.pop(0), marked=marked)
    if node.name not in OPCODES and not re.fullmatch("0x[0-9a-f]{2}", node.name):
        raise ValueError(f"no operator: {node.name}")
    if tokens and tokens[0][0] == "[":
        parse_operands(node, tokens.pop(0)[1:-1])
    if tokens and tokens[0][0] == "{":
        parse_options(node, tokens.pop(0)[1:-1])
    if tokens and tokens[0][0] == "^":
        for _ in range(int(tokens.pop(0)[1:]) - 1):
            node.children = [Node(node.name, node.operands, node.written)]
            node = node.children[0]
    while tokens and re.match(r"[\w]", tokens[0]):
        node.words.append(tokens.pop(0))
    if tokens and tokens[0] == "(":
        while tokens.pop(0) != ")":
            child = parse_node(tokens)
            times = int(tokens.pop(0)[1:]) if tokens[0][0] == "*" else 1
            node.children += [child, *(clone(child) for _ in range(times - 1))][:times]
    return outer


def clone(node: Node) -> Node:
    copy = Node(node.name, node.operands, node.written, node.named, node.options, node.table, node.words)
    copy.children = [clone(child) for child in node.children]
    return copy


def parse_operands(node: Node, text: str) -> None:
    """Numbers, names of functions, `key=number` for rans, `over:5` for 5 in one byte too many, `hex:8000`."""
    for item in repeated(re.split(r"[,\s]+", text.strip())):
        kind, _, rest = item.rpartition(":")
        if "=" in item:
            key, _, number = item.partition("=")
            node.named[key] = int(number)
            continue
        node.written = node.written or b""
        if kind == "hex":
            node.written += bytes.fromhex(rest)
        else:
            value = FUNCTIONS.get(node.name, {}).get(rest)
            value = int(rest, 0) if value is None else value
            code = varint(value)
            node.operands.append(value)
            node.written += code[:-1] + bytes([code[-1] | 128, 0]) if kind == "over" else code


def parse_options(node: Node, text: str) -> None:
    """`key=text`, or `symbol:number` of a table, with symbols as `2..5` for several."""
    for item in text.split():
        if "=" in item:
            key, _, value = item.partition("=")
            node.options[key] = value
        else:
            symbols, _, number = item.partition(":")
            node.table |= {int(symbol, 0): int(number) for symbol in repeated([symbols])}


def assign_types(node: Node, w: int, n: int) -> None:
    """Types flow down (§4.1). Below a node at fault they may have no meaning: children get the node's own."""
    node.w, node.n = w, n
    types = types_at_fault(node, w, n) if node.marked else child_types(node, w, n)
    for child, (child_w, child_n) in itertools.zip_longest(node.children, types, fillvalue=(w, n)):
        if isinstance(child, Node):
            assign_types(child, child_w, child_n)


def types_at_fault(node: Node, w: int, n: int) -> list[tuple[int, int]]:
    try:
        types = child_types(node, w, n)
    except (ArithmeticError, LookupError, ValueError):
        return []
    return types if all(1 <= x <= 64 and 1 <= y <= 1 << 24 for x, y in types) else []


def child_types(node: Node, w: int, n: int) -> list[tuple[int, int]]:
    operands = node.operands
    parts = operands[1:]
    match node.name:
        case "map":
            return [(w, n)]
        case "scan":
            return [(w, n - 1)]
        case "repeat" | "stretch":
            return [(w, n // operands[0])]
        case "concat":
            return [(w, part) for part in [*parts, n - sum(parts)]]
        case "merge":
            return [(part, n) for part in [*parts, w - sum(parts)]]
        case "weave":
            return [(ceil_log2(operands[0]), n), *((w, part) for part in [*parts, n - sum(parts)])]
        case "lookup":
            r, m = operands
            return [(ceil_log2(m), n // r), (w, m * r)]
    return []


def ceil_log2(x: int) -> int:
    return (x - 1).bit_length()


def words_of(node: Node) -> list[int]:
    """The words that a literal's source gives; `draw:COUNT:SEED` draws from symbols of the table, or all."""
    out: list[int] = []
    symbols = list(node.table)
    for item in node.words:
        if item.startswith("draw:"):
            _, count, seed = item.split(":")
            for i in range(int(count)):
                x = int.from_bytes(sha256(f"{seed} {i}".encode()).digest()[:8], "little")
                out.append(symbols[x % len(symbols)] if symbols else x % (1 << node.w))
        else:
            out += [int(x, 0) for x in repeated([item])]
    return out


def emit(node: Node, code: bytearray, payloads: bytearray) -> int | None:
    """Append a node's code and its payload; returns where the marked node begins, if there is one."""
    mark = len(code) if node.marked else None
    opcode = OPCODES.get(node.name)
    code.append(int(node.name, 0) if opcode is None else opcode)
    given = option_bytes(node, "payload")
    payload, operands = payload_of(node) if given is None else (given, [])
    if node.written is None:
        operands = operands or [len(payload)] * (node.name in ("huffman", "zstd"))
        node.written = b"".join(map(varint, operands))
    code += node.written
    payloads += payload + (option_bytes(node, "extra") or b"")
    for child in node.children:
        found = emit(child, code, payloads)
        mark = found if mark is None else mark
    return mark


def option_bytes(node: Node, key: str) -> bytes | None:
    """The bytes that an option gives, with commas for blanks."""
    return data_bytes(node.options[key].replace(",", " ")) if key in node.options else None


def payload_of(node: Node) -> tuple[bytes, list[int]]:
    """The payload, and for rans the operands that fit it."""
    words = words_of(node)
    match node.name:
        case "raw":
            return pack(words, node.w), []
        case "packed":
            v, base = node.operands
            return pack([(word - base) % (1 << v) for word in words], v), []
        case "huffman":
            return table_of(node) + huffman_bits(node, words), []
        case "zstd":
            frame = option_bytes(node, "frame")
            return zstd_frame(pack(words, node.w)) if frame is None else frame, []
        case "rans":
            return rans_payload(node, words)
    return b"", []


def table_of(node: Node) -> bytes:
    """The table; `table=width:value,eg1:value,b:bits,…` where its fields and codes are given one by one."""
    options, bits = node.options, ""
    if "table" not in options:
        p = int(options.get("p", 15)) if node.name == "rans" else None
        orders = int(options.get("gap", 0)), int(options.get("value", 0))
        s = int(options.get("s", len(node.table)))
        bits = table_bits(list(node.table), list(node.table.values()), node.w, p, *orders, s)
    for item in options.get("table", "").split(",") if options.get("table") else []:
        kind, _, value = item.partition(":")
        if kind == "b":
            bits += "".join(repeated([value]))
        elif kind.startswith("eg"):
            bits += exp_golomb(int(value), int(kind[2:]))
        else:
            bits += bit_field(int(value), int(kind))
    padding = options.get("padding", "")
    return bytes_of_bits(bits + padding)


def huffman_bits(node: Node, words: list[int]) -> bytes:
    codes = huffman_codes(list(node.table), list(node.table.values()))
    bits = "".join(codes[word] for word in words) + node.options.get("tail", "")
    coded = bytes_of_bits(bits)
    return coded[: len(coded) - int(node.options.get("cut", 0))] + bytes.fromhex(node.options.get("more", ""))


def rans_payload(node: Node, words: list[int]) -> tuple[bytes, list[int]]:
    """Options: final (a state), cut (bytes off the last block), more (bytes behind it), block (its bytes)."""
    if node.operands:  # all as they stand in the code
        parameters, blocks = node.operands[:2]
        node.named = {"lanes": 1 << parameters % 8, "k": 8 + parameters // 8 % 8, "blocks": blocks}
    lanes, k, blocks = (node.named.get(key, d) for key, d in (("lanes", 1), ("k", 12), ("blocks", 1)))
    options, table = node.options, table_of(node)
    block = option_bytes(node, "block")
    if block is not None:
        coded = [block]
    else:
        numbers = list(node.table.values())
        f = frequencies(numbers, int(options.get("p", 15)), k)
        number_of = {symbol: i for i, symbol in enumerate(node.table)}
        indices = [number_of[word] for word in words]
        q = -(-len(words) // max(blocks, 1))
        final = int(options.get("final", 1 << 16))
        coded = [
            rans_block(indices[i : i + q], f, k, lanes, final) for i in range(0, len(words), q) if node.table
        ]
    coded[-1] = coded[-1][: len(coded[-1]) - int(options.get("cut", 0))]
    coded[-1] += bytes.fromhex(options.get("more", ""))
    parameters = lanes.bit_length() - 1 + 8 * (k - 8)
    return b"".join([table, *coded]), [parameters, blocks, len(table), *map(len, coded)]


def evaluate(node: Node) -> array:
    """The words of a sound node: what §4.3 says, up to 2^24 of them. A literal has the words that are listed.
    A node at fault may have words too: those that come of it where the fault is not noticed."""
    w, n, operands, mask = node.w, node.n, node.operands, (1 << node.w) - 1
    if node.marked and [(child.w, child.n) for child in node.children] != types_at_fault(node, w, n):
        raise ValueError("an operator whose children cannot have the types that it demands")
    children = [evaluate(child) for child in node.children]
    first = children[0] if children else array("Q")
    match node.name:
        case "const":
            return array("Q", [operands[0]]) * n
        case "concat":
            words = array("Q", itertools.chain(*children))
        case "repeat":
            words = first * operands[0]
        case "stretch":
            words = array("Q", (x for x in first for _ in range(operands[0])))
        case "map":
            f = cache(map_function(w, *operands))
            words = array("Q", map(f, first))
        case "scan":
            words = array("Q", [operands[1]])
            for x in first:
                words.append(words[-1] ^ x if operands[0] == 0 else words[-1] + x & mask)
        case "merge":
            words = first
            for child, low in zip(node.children[1:], children[1:], strict=True):
                words = array("Q", (x << child.w | y for x, y in zip(words, low, strict=True)))
        case "weave":
            untaken = [iter(child) for child in children[1:]]
            words = array("Q", (next(untaken[j]) for j in first))
        case "lookup":
            r = operands[0]
            words = array("Q", (x for t in first for x in children[1][t * r : t * r + r]))
        case _:
            words = array("Q", words_of(node))
    if len(words) != n or max(words) > mask:
        raise ValueError(f"{node.name}: {len(words)} words up to {max(words)}, not {n} of {w} bits")
    return words


def map_function(w: int, f: int, c: int = 0) -> Callable[[int], int]:
    mask = (1 << w) - 1
    if f == 5:
        return lambda x: x ^ (1 << (w - 1)) if x >> (w - 1) else x ^ mask
    if f == 4:
        return lambda x: int((bits := f"{x:0{w}b}")[c:] + bits[:c], 2)
    if f == 3:
        return partial(ungray, w)
    if f == 2:
        return lambda x: (x >> 1) ^ (-(x & 1) & mask)
    return (lambda x: x + c & mask) if f else (lambda x: x ^ c)


def ungray(w: int, x: int) -> int:
    """Each bit of y is the sum, mod 2, of x's bits from there up."""
    return int("".join(map(str, itertools.accumulate(map(int, f"{x:0{w}b}"), operator.xor))), 2)
