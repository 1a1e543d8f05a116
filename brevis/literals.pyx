"""The operators without children: literals, which take their words from payloads, and const.

A row of ops.pyx names each of these functions. A check may assume operands of the row's layout; start and
pull that all checks held. Knows nothing of other operators.
"""
from libc.stdint cimport uint8_t, uint16_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from brevis.bits cimport stored_bytes
from brevis.entropy cimport Histogram, Huffman, Rans, Table, frequencies, read_table
from brevis.kernels cimport (
    BRV_ADD, BRV_HUFFMAN_TABLE, BRV_LANES, BRV_SYMBOLS, brv_alias, brv_alias_build, brv_alias_bytes, brv_alias_kind,
    brv_fill, brv_huffman_build, brv_huffman_decode, brv_log2, brv_map, brv_name, brv_put_field, brv_rans,
    brv_rans_close, brv_rans_decode, brv_rans_open, brv_same, brv_size, brv_take_field, brv_unmap, brv_unpack,
)
from brevis.node cimport (
    CORRUPT, INVALID, MAX_BLOCKS, NO_MEMORY, OK, Node, Run, Type, behind, check_leaf, is_word, need_scratch, scratch, take,
)
from brevis.words cimport Words

import zstandard

cdef enum:
    LANE_WORDS = 65536      # of a block, for each lane, unless there are BRV_LANES (FORMAT.md, operator 04)
    HUFFMAN_WORDS = 32768   # beyond, what its smaller table saves cannot matter, and rans is nearer to the entropy


class Unfit(Exception):
    """The words are not of the form that the operator can write."""


cdef Words copy(Words words):
    cdef Words twin = Words.room(words.width, words.count)
    memcpy(twin.data, words.data, words.count * brv_size(words.width))
    return twin


# ---- raw, packed, zstd: fields of bits ----

cdef int raw_check(Node *node, Type *children) noexcept nogil:
    cdef uint64_t size
    return check_leaf(node, size) if stored_bytes(node.width, node.count, &size) else INVALID

cdef int fields_start(Node *node, unsigned width) noexcept nogil:
    """FORMAT.md V2: padding is zero."""
    cdef unsigned used = <unsigned>(width * node.count % 8)
    return CORRUPT if used and node.payload[node.payload_size - 1] >> used else OK

cdef int raw_start(Run *run, Node *node) noexcept nogil:
    return fields_start(node, node.width)

cdef int raw_pull(Run *run, Node *node, void *dst, size_t count) noexcept nogil:
    brv_unpack(dst, node.payload, node.payload_size, node.done * node.width, node.width, count)
    return OK

def raw_encode(operands, Words words):
    return (), (), words.tobytes()


cdef int packed_check(Node *node, Type *children) noexcept nogil:
    cdef uint64_t size, v = node.operands[0]
    if v < 1 or v >= node.width or not is_word(node.operands[1], node.width) or not stored_bytes(v, node.count, &size):
        return INVALID
    return check_leaf(node, size)

cdef int packed_start(Run *run, Node *node) noexcept nogil:
    return fields_start(node, node.operands[0]) or need_scratch(run, node, 1)

cdef int packed_pull(Run *run, Node *node, void *dst, size_t count) noexcept nogil:
    cdef unsigned v = node.operands[0]
    cdef void *fields = scratch(run, node, 0)
    brv_unpack(fields, node.payload, node.payload_size, node.done * v, v, count)
    brv_put_field(dst, node.width, fields, v, 0, True, count)
    brv_map(dst, BRV_ADD, node.operands[1], node.width, count)
    return OK

def packed_encode(operands, Words words):
    """Operands: the field's width and the base."""
    cdef unsigned v = operands[0]
    cdef uint64_t base = operands[1], i
    cdef Words fields = Words.room(v, words.count), shifted = copy(words)
    brv_unmap(shifted.data, BRV_ADD, base, words.width, words.count)
    for i in range(words.count):
        if not is_word(shifted.word(i), v):
            raise Unfit("packed: a word outside the range")
    brv_take_field(fields.data, v, shifted.data, words.width, 0, words.count)
    return (v, base), (), fields.tobytes()


cdef int zstd_check(Node *node, Type *children) noexcept nogil:
    if node.operands[0] < 1 or not stored_bytes(node.width, node.count, &node.charge):
        return INVALID
    return check_leaf(node, node.operands[0])

def zstd_encode(operands, Words words):
    """Operand: the library's level."""
    payload = zstandard.ZstdCompressor(level=operands[0]).compress(words.tobytes())
    return (len(payload),), (), payload


# ---- huffman ----

cdef struct HuffmanState:
    uint16_t table[BRV_HUFFMAN_TABLE]
    uint64_t *symbols
    uint64_t bit
    size_t head                 # bytes of the table in the payload

cdef int sized_check(Node *node, Type *children) noexcept nogil:
    return check_leaf(node, node.operands[0]) if node.operands[0] >= 1 else INVALID

cdef int table_start(Node *node, Table *table, uint64_t size, bint rans) noexcept nogil:
    """Reads the table at the head of the payload into memory that holds a full one."""
    table.symbols = <uint64_t *>malloc(BRV_SYMBOLS * (sizeof(uint64_t) + sizeof(uint16_t)))
    if table.symbols == NULL:
        return NO_MEMORY
    table.values = <uint16_t *>(table.symbols + BRV_SYMBOLS)
    return OK if read_table(table, node.payload, size, node.width, rans) else CORRUPT

cdef int kept_symbols(Run *run, Table *table, uint64_t **symbols) noexcept nogil:
    symbols[0] = <uint64_t *>take(run, table.count * sizeof(uint64_t))
    if symbols[0] == NULL:
        return NO_MEMORY
    memcpy(symbols[0], table.symbols, table.count * sizeof(uint64_t))
    return OK

cdef int huffman_start(Run *run, Node *node) noexcept nogil:
    cdef Table table
    cdef HuffmanState *state = <HuffmanState *>take(run, sizeof(HuffmanState))
    cdef int status = NO_MEMORY if state == NULL else need_scratch(run, node, 1)
    if status:
        return status
    status = table_start(node, &table, node.payload_size, False)
    if status == OK:
        status = kept_symbols(run, &table, &state.symbols)
    if status == OK and brv_huffman_build(state.table, NULL, table.values, table.count):
        status = CORRUPT
    free(table.symbols)
    if status == OK:
        node.state, state.bit, state.head = state, 0, table.size
    return status

cdef bint at_end(uint64_t bit, const uint8_t *data, size_t size) noexcept nogil:
    """Whether only zero bits of the last byte are left."""
    return (bit + 7) // 8 == size and not (bit % 8 and data[size - 1] >> bit % 8)

cdef int huffman_pull(Run *run, Node *node, void *dst, size_t count) noexcept nogil:
    cdef HuffmanState *state = <HuffmanState *>node.state
    cdef const uint8_t *data = node.payload + state.head
    cdef size_t size = node.payload_size - state.head
    cdef uint16_t *numbers = <uint16_t *>scratch(run, node, 0)
    if brv_huffman_decode(numbers, state.table, data, size, &state.bit, count):
        return CORRUPT
    if node.done + count == node.count and not at_end(state.bit, data, size):
        return CORRUPT
    brv_name(dst, numbers, state.symbols, node.width, count)
    return OK

def huffman_encode(operands, Words words):
    cdef Histogram h = Histogram.of(words)
    if h is None or h.count < 2:
        raise Unfit("huffman: too many or too few distinct words")
    return written_huffman(Huffman.plan(h), words)

cdef tuple written_huffman(Huffman plan, Words words):
    payload = plan.encode(words)
    return (len(payload),), (), payload


# ---- rans ----

cdef struct RansState:
    brv_alias alias
    brv_rans coder
    uint64_t *symbols           # of words wider than 16 bits; the others stand in the alias table
    const uint8_t *next         # block
    uint64_t left               # words of the open block
    uint64_t block_words
    size_t block

cdef int rans_check(Node *node, Type *children) noexcept nogil:
    cdef uint64_t lanes, blocks = node.operands[1], words, size
    cdef size_t i
    if node.operands[0] >= 64 or (node.operands[0] & 7) > 6 or node.operands[2] < 1:
        return INVALID
    if blocks < 1 or blocks > min(node.count, <uint64_t>MAX_BLOCKS):
        return INVALID
    lanes = <uint64_t>1 << (node.operands[0] & 7)
    words = (node.count - 1) // blocks + 1
    if (node.count - 1) // words + 1 != blocks or lanes < BRV_LANES and words > LANE_WORDS * lanes:
        return INVALID
    size = node.operands[2]
    for i in range(3, node.operand_count):
        if node.operands[i] % 2 or node.operands[i] < 4 * lanes:
            return INVALID
        size = size + node.operands[i] if size + node.operands[i] >= size else <uint64_t>-1     # beyond any body
    return check_leaf(node, size)

cdef int rans_start(Run *run, Node *node) noexcept nogil:
    cdef Table table
    cdef RansState *state = <RansState *>take(run, sizeof(RansState))
    cdef int status = NO_MEMORY if state == NULL else OK
    cdef unsigned bits = <unsigned>(node.operands[0] >> 3) + 8
    if status == OK:
        memset(state, 0, sizeof(RansState))
        node.state = state
        state.next = node.payload + node.operands[2]
        state.block_words = (node.count - 1) // node.operands[1] + 1
        status = table_start(node, &table, node.operands[2], True)
        if status == OK and (table.size != node.operands[2] or not frequencies(&table, bits)):
            status = CORRUPT
        if status == OK:
            status = rans_tables(run, node, state, &table, bits)
        free(table.symbols)
    return status

cdef int rans_tables(Run *run, Node *node, RansState *state, Table *table, unsigned bits) noexcept nogil:
    cdef int kind = brv_alias_kind(table.count, bits, 1u << (node.operands[0] & 7), node.count)
    cdef void *room = take(run, brv_alias_bytes(table.count, bits, kind))
    cdef uint16_t *names = NULL
    cdef size_t i
    cdef int status
    if room == NULL:
        return NO_MEMORY
    if node.width <= 16:
        names = <uint16_t *>table.symbols   # narrowed in place: entry i is read before it is overwritten
        for i in range(table.count):
            names[i] = <uint16_t>table.symbols[i]
    else:
        status = kept_symbols(run, table, &state.symbols) or need_scratch(run, node, 1)
        if status:
            return status
    brv_alias_build(&state.alias, room, table.values, names, table.count, bits, kind)
    return OK

cdef int rans_pull(Run *run, Node *node, void *dst, size_t count) noexcept nogil:
    cdef RansState *state = <RansState *>node.state
    cdef size_t part, at = 0, size
    cdef bint named = state.symbols == NULL
    cdef unsigned w = node.width if named else 16
    cdef void *out = dst if named else scratch(run, node, 0)
    while at < count:
        if state.left == 0:
            size = node.operands[3 + state.block]
            if brv_rans_open(&state.coder, state.next, size, 1u << (node.operands[0] & 7)):
                return CORRUPT
            state.left = min(state.block_words, node.count - node.done - at)
            state.next += size
            state.block += 1
        part = min(state.left, <uint64_t>(count - at))
        if brv_rans_decode(&state.coder, &state.alias, behind(out, w, at), brv_size(w), part):
            return CORRUPT
        state.left -= part
        at += part
        if state.left == 0 and brv_rans_close(&state.coder):
            return CORRUPT
    if not named:
        brv_name(dst, <const uint16_t *>out, state.symbols, node.width, count)
    return OK

def rans_encode(operands, Words words):
    cdef Histogram h = Histogram.of(words)
    if h is None or h.count < 2:
        raise Unfit("rans: too many or too few distinct words")
    return written_rans(Rans.plan(h), words)

cdef tuple written_rans(Rans plan, Words words):
    operands, payload = plan.encode(words)
    return operands, (), payload


# ---- const ----

cdef int const_check(Node *node, Type *children) noexcept nogil:
    return check_leaf(node, 0) if is_word(node.operands[0], node.width) else INVALID

cdef int const_pull(Run *run, Node *node, void *dst, size_t count) noexcept nogil:
    brv_fill(dst, node.operands[0], node.width, count)
    return OK

def const_encode(operands, Words words):
    if not words.count or not brv_same(words.data, words.width, words.count):
        raise Unfit("const: words differ")
    return (words.word(0),), (), None


# ---- the smallest ----

def best_literal(Words words, zstd_level=None) -> tuple:
    """(name, operands, payload) of the smallest literal for the words; zstd is tried where a level is
    given.
    """
    cdef Histogram h
    cdef Rans rans
    cdef Huffman huffman = None
    cdef uint64_t cost, least = <uint64_t>words.width * words.count << 16   # units of 2^-16 bit
    name, operands, payload = "raw", (), None
    if not words.count:
        raise Unfit("no words")
    if brv_same(words.data, words.width, words.count):
        return "const", (words.word(0),), None
    h = Histogram.of(words)
    if h is not None:
        rans = Rans.plan(h)
        if rans is not None and rans.cost < least:
            name, least = "rans", rans.cost
        if words.count < HUFFMAN_WORDS and h.count <= 256:
            huffman = Huffman.plan(h)
            if huffman.cost < least:
                name, least = "huffman", huffman.cost
        width = brv_log2(h.symbols[h.count - 1] - h.symbols[0]) + 1
        cost = <uint64_t>(width * words.count) << 16
        if cost < least and width < words.width:
            name, operands, least = "packed", (width, h.symbols[0]), cost
    if zstd_level is not None:
        _, _, frame = zstd_encode((zstd_level,), words)
        if <uint64_t>len(frame) << 19 < least:
            return "zstd", (len(frame),), frame
    if name == "rans":
        operands, _, payload = written_rans(rans, words)
    elif name == "huffman":
        operands, _, payload = written_huffman(huffman, words)
    else:
        operands, _, payload = (packed_encode if name == "packed" else raw_encode)(operands, words)
    return name, operands, payload
