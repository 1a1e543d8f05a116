"""THE TABLE: for each operator its number, name, operand layout, type rule, and how it is run and written.

A row's `check` may assume operands of its layout; `start` and `pull` may assume that all checks held; a
puller asks for at most TILE words and never for more than are left. Knows nothing of bytecode (program), of
the order of a run (interp) or of what is worth writing (search). To add an operator: a paragraph in
spec/FORMAT.md, a function in spec/reference.py, a row here, vectors. Leaves have their functions in
literals.pyx.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcmp, memcpy, memset

from brevis.bits cimport product
from brevis.entropy cimport Histogram
from brevis.kernels cimport (
    BRV_ADD, BRV_ROTATE, brv_count_classes, brv_fill, brv_log2, brv_lookup, brv_map, brv_put_field, brv_same, brv_scan, brv_size,
    brv_stretch, brv_take_field, brv_unmap, brv_unscan, brv_unweave, brv_weave, brv_word,
)
from brevis.literals cimport (
    const_check, const_pull, copy, huffman_pull, huffman_start, packed_check, packed_pull, packed_start, rans_check, rans_pull,
    rans_start, raw_check, raw_pull, raw_start, sized_check, zstd_check,
)
from brevis.node cimport (
    CORRUPT, INVALID, MAX_CHILDREN, NO_MEMORY, OK, TILE, Node, Op, Run, Type, behind, check_function, is_word, need_scratch,
    pull, pull_all, pull_function, scratch, start_function, start_nothing, take,
)
from brevis.words cimport Words

from brevis import literals
from brevis.literals import Unfit

# ---- small common rules ----

cdef inline unsigned index_width(uint64_t k) noexcept nogil:
    """The ceiling of log2 k, k >= 2."""
    return brv_log2(k - 1) + 1


cdef int check_child(Node *node, Type *children, unsigned width, uint64_t count) noexcept nogil:
    node.child_count = 1
    children[0] = Type(width, count)
    return OK


cdef int check_parts(Node *node, Type *children, uint64_t total, uint64_t *last) noexcept nogil:
    """Operands k, x1 … x(k-1): parts of at least 1 that sum to less than `total`; the rest is the last."""
    cdef size_t i
    if node.operands[0] > MAX_CHILDREN:
        return INVALID
    for i in range(1, node.operand_count):
        if node.operands[i] < 1 or node.operands[i] >= total:
            return INVALID
        total -= node.operands[i]
    last[0] = total
    return OK


# ---- concat ----

cdef int concat_check(Node *node, Type *children) noexcept nogil:
    cdef uint64_t last
    cdef size_t i
    if check_parts(node, children, node.count, &last):
        return INVALID
    node.child_count = <unsigned>node.operand_count
    for i in range(node.child_count - 1):
        children[i] = Type(node.width, node.operands[1 + i])
    children[node.child_count - 1] = Type(node.width, last)
    return OK

cdef int concat_start(Run *run, Node *node) noexcept nogil:
    node.state = node.children
    return OK

cdef int concat_pull(Run *run, Node *node, void *dst, size_t count) noexcept nogil:
    cdef Node *child = <Node *>node.state
    cdef size_t at = 0, part
    cdef int status
    while at < count:
        while child.done == child.count:
            child += 1
        part = min(<uint64_t>(count - at), child.count - child.done)
        status = pull(run, child, behind(dst, node.width, at), part)
        if status:
            return status
        at += part
    node.state = child
    return OK

def concat_encode(operands, Words words):
    """Operands: the lengths of all parts but the last."""
    cdef size_t at = 0
    parts = []
    for length in (*operands, words.count - sum(operands)):
        parts.append(words.part(at, length))
        at += length
    return (len(parts), *operands), tuple(parts), None


# ---- repeat ----

cdef struct Buffered:
    void *words
    size_t span                 # words in the buffer
    size_t at                   # the next word
    size_t left                 # of a run (lookup)

cdef int repeat_check(Node *node, Type *children) noexcept nogil:
    cdef uint64_t k = node.operands[0]
    if k < 2 or node.count % k:
        return INVALID
    if not product(brv_size(node.width), node.count // k, &node.charge):
        return INVALID
    return check_child(node, children, node.width, node.count // k)

cdef int buffer_start(Run *run, Node *node) noexcept nogil:
    node.state = take(run, sizeof(Buffered))
    if node.state == NULL:
        return NO_MEMORY
    memset(node.state, 0, sizeof(Buffered))
    return OK

cdef int fill_buffer(Run *run, Node *node, Node *child, size_t copies) noexcept nogil:
    """The child's words, so many times over, once, before the node's first."""
    cdef Buffered *state = <Buffered *>node.state
    cdef size_t done = 1, more
    cdef int status
    if state.words != NULL:
        return OK
    state.span = child.count * copies
    state.words = take(run, state.span * brv_size(node.width))
    if state.words == NULL:
        return NO_MEMORY
    status = pull_all(run, child, state.words)
    while done < copies:
        more = min(done, copies - done)
        memcpy(behind(state.words, node.width, done * child.count), state.words, more * child.count * brv_size(node.width))
        done += more
    return status

cdef int repeat_pull(Run *run, Node *node, void *dst, size_t count) noexcept nogil:
    cdef Buffered *state = <Buffered *>node.state
    cdef size_t at = 0, part
    # short periods are held several times over: up to TILE words, for at least as many to give
    cdef int status = fill_buffer(run, node, node.children, max(min(<uint64_t>TILE, node.count) // node.children[0].count, 1))
    if status:
        return status
    while at < count:
        part = min(count - at, state.span - state.at)
        memcpy(behind(dst, node.width, at), behind(state.words, node.width, state.at), part * brv_size(node.width))
        at += part
        state.at = 0 if state.at + part == state.span else state.at + part
    return OK

def repeat_encode(operands, Words words):
    """Operand: how often."""
    cdef size_t k = operands[0], period, size = brv_size(words.width)
    if k < 2 or words.count % k or not words.count:
        raise Unfit("repeat: no whole number of times")
    period = words.count // k
    if memcmp(words.data, <uint8_t *>words.data + period * size, (words.count - period) * size):
        raise Unfit("repeat: words differ")
    return (k,), (words.part(0, period),), None


# ---- map ----

cdef int map_check(Node *node, Type *children) noexcept nogil:
    cdef uint64_t f = node.operands[0]
    if f == BRV_ROTATE and (node.operands[1] < 1 or node.operands[1] >= node.width):
        return INVALID
    if f <= BRV_ADD and not is_word(node.operands[1], node.width):
        return INVALID
    return check_child(node, children, node.width, node.count)

cdef inline uint64_t map_operand(Node *node) noexcept nogil:
    return node.operands[1] if node.operand_count > 1 else 0

cdef int map_pull(Run *run, Node *node, void *dst, size_t count) noexcept nogil:
    cdef int status = pull(run, node.children, dst, count)
    if status == OK:
        brv_map(dst, <unsigned>node.operands[0], map_operand(node), node.width, count)
    return status

def map_encode(operands, Words words):
    cdef Words child = copy(words)
    cdef unsigned f = operands[0]
    cdef uint64_t operand = operands[1] if len(operands) > 1 else 0
    with nogil:
        brv_unmap(child.data, f, operand, child.width, child.count)
    return operands, (child,), None


# ---- scan ----

cdef int scan_check(Node *node, Type *children) noexcept nogil:
    if not is_word(node.operands[1], node.width) or node.count < 2:
        return INVALID
    return check_child(node, children, node.width, node.count - 1)

cdef int scan_start(Run *run, Node *node) noexcept nogil:
    node.state = take(run, sizeof(uint64_t))
    if node.state == NULL:
        return NO_MEMORY
    (<uint64_t *>node.state)[0] = node.operands[1]
    return OK

cdef int scan_pull(Run *run, Node *node, void *dst, size_t count) noexcept nogil:
    cdef uint64_t *last = <uint64_t *>node.state
    cdef int status
    if node.done == 0:
        brv_fill(dst, last[0], node.width, 1)
        dst = behind(dst, node.width, 1)
        count -= 1
    if count == 0:
        return OK
    status = pull(run, node.children, dst, count)
    if status == OK:
        last[0] = brv_scan(dst, <unsigned>node.operands[0], last[0], node.width, count)
    return status

def scan_encode(operands, Words words):
    """Operand: 0 for xor, 1 for add."""
    if words.count < 2:
        raise Unfit("scan: one word")
    cdef Words child = Words.room(words.width, words.count - 1)
    brv_unscan(child.data, words.data, operands[0], words.width, child.count)
    return (operands[0], words.word(0)), (child,), None


# ---- merge ----

cdef int merge_check(Node *node, Type *children) noexcept nogil:
    cdef uint64_t last
    cdef size_t i
    if check_parts(node, children, node.width, &last):
        return INVALID
    node.child_count = <unsigned>node.operand_count
    for i in range(node.child_count - 1):
        children[i] = Type(<unsigned>node.operands[1 + i], node.count)
    children[node.child_count - 1] = Type(<unsigned>last, node.count)
    return OK

cdef int one_tile_start(Run *run, Node *node) noexcept nogil:
    return need_scratch(run, node, 1)

cdef int merge_pull(Run *run, Node *node, void *dst, size_t count) noexcept nogil:
    cdef void *field = scratch(run, node, 0)
    cdef unsigned i, shift = node.width
    cdef int status
    for i in range(node.child_count):
        status = pull(run, &node.children[i], field, count)
        if status:
            return status
        shift -= node.children[i].width
        brv_put_field(dst, node.width, field, node.children[i].width, shift, i == 0, count)
    return OK

def merge_encode(operands, Words words):
    """Operands: the widths of all fields but the last."""
    cdef unsigned shift = words.width, width
    cdef Words field
    fields = []
    for width in (*operands, words.width - sum(operands)):
        shift -= width
        field = Words.room(width, words.count)
        with nogil:
            brv_take_field(field.data, width, words.data, words.width, shift, words.count)
        fields.append(field)
    return (len(fields), *operands), tuple(fields), None


# ---- stretch ----

cdef struct StretchState:
    uint64_t word
    uint64_t left               # copies of it that are still to be given

cdef int stretch_check(Node *node, Type *children) noexcept nogil:
    cdef uint64_t r = node.operands[0]
    if r < 2 or node.count % r:
        return INVALID
    return check_child(node, children, node.width, node.count // r)

cdef int stretch_start(Run *run, Node *node) noexcept nogil:
    node.state = take(run, sizeof(StretchState))
    if node.state == NULL:
        return NO_MEMORY
    memset(node.state, 0, sizeof(StretchState))
    return need_scratch(run, node, 1)

cdef int stretch_pull(Run *run, Node *node, void *dst, size_t count) noexcept nogil:
    cdef StretchState *state = <StretchState *>node.state
    cdef uint64_t r = node.operands[0]
    cdef void *words = scratch(run, node, 0)
    cdef size_t part = min(state.left, <uint64_t>count), whole
    cdef int status
    brv_fill(dst, state.word, node.width, part)
    state.left -= part
    whole = (count - part) // r
    if whole:
        status = pull(run, node.children, words, whole)
        if status:
            return status
        brv_stretch(behind(dst, node.width, part), words, r, node.width, whole)
        part += whole * r
    if part < count:
        status = pull(run, node.children, words, 1)
        if status:
            return status
        state.word = brv_word(words, node.width, 0)
        state.left = r - (count - part)
        brv_fill(behind(dst, node.width, part), state.word, node.width, count - part)
    return OK

def stretch_encode(operands, Words words):
    """Operand: the length of the runs."""
    cdef size_t r = operands[0], i, size = brv_size(words.width)
    cdef Words child
    if r < 2 or words.count % r:
        raise Unfit("stretch: no whole number of runs")
    child = Words.room(words.width, words.count // r)
    for i in range(child.count):
        if not brv_same(behind(words.data, words.width, i * r), words.width, r):
            raise Unfit("stretch: words of a run differ")
        memcpy(behind(child.data, words.width, i), behind(words.data, words.width, i * r), size)
    return (r,), (child,), None


# ---- weave ----

cdef int weave_check(Node *node, Type *children) noexcept nogil:
    cdef uint64_t last
    cdef size_t i, k = node.operand_count
    if check_parts(node, children, node.count, &last):
        return INVALID
    node.child_count = <unsigned>k + 1
    children[0] = Type(index_width(k), node.count)
    for i in range(1, k):
        children[i] = Type(node.width, node.operands[i])
    children[k] = Type(node.width, last)
    return OK

cdef int two_tiles_start(Run *run, Node *node) noexcept nogil:
    return need_scratch(run, node, 2)

cdef int weave_pull(Run *run, Node *node, void *dst, size_t count) noexcept nogil:
    cdef uint8_t *select = <uint8_t *>scratch(run, node, 0)
    cdef void *words = scratch(run, node, 1)
    cdef const void *sources[MAX_CHILDREN]
    cdef uint64_t counts[MAX_CHILDREN]
    cdef unsigned j, k = node.child_count - 1
    cdef Node *child
    cdef int status = pull(run, node.children, select, count)
    if status == OK and brv_count_classes(counts, select, k, count):
        status = CORRUPT
    if status:
        return status
    for j in range(k):
        child = &node.children[1 + j]
        sources[j] = words
        if counts[j] > child.count - child.done:
            return CORRUPT
        if counts[j]:
            status = pull(run, child, words, counts[j])
            if status:
                return status
            words = behind(words, node.width, counts[j])
    brv_weave(dst, select, sources, k, node.width, count)
    return OK

def weave_encode(operands, Words words):
    """Operands: the number of classes, and the selectors as Words."""
    cdef unsigned k = operands[0], j
    cdef Words select = operands[1], part
    cdef uint64_t counts[MAX_CHILDREN]
    cdef void *into[MAX_CHILDREN]
    cdef int status
    parts = []
    with nogil:
        status = brv_count_classes(counts, <const uint8_t *>select.data, k, select.count)
    if select.count != words.count or status:
        raise ValueError("weave: selectors do not fit the words")
    for j in range(k):
        if counts[j] == 0:
            raise Unfit("weave: an empty class")
        part = Words.room(words.width, counts[j])
        into[j] = part.data
        parts.append(part)
    with nogil:
        brv_unweave(into, <const uint8_t *>select.data, words.data, k, words.width, words.count)
    return (k, *[counts[j] for j in range(k - 1)]), (select, *parts), None


# ---- lookup ----

cdef int lookup_check(Node *node, Type *children) noexcept nogil:
    cdef uint64_t r = node.operands[0], m = node.operands[1], words
    if r < 1 or node.count % r or m < 2 or not product(m, r, &words) or words > node.count:
        return INVALID
    if not product(brv_size(node.width), words, &node.charge):
        return INVALID
    node.child_count = 2
    children[0] = Type(index_width(m), node.count // r)
    children[1] = Type(node.width, words)
    return OK

cdef int lookup_start(Run *run, Node *node) noexcept nogil:
    return buffer_start(run, node) or need_scratch(run, node, 2)

cdef int lookup_pull(Run *run, Node *node, void *dst, size_t count) noexcept nogil:
    cdef int status = fill_buffer(run, node, &node.children[1], 1)
    if status:
        return status
    return lookup_words(run, node, dst, count) if node.operands[0] == 1 else lookup_runs(run, node, dst, count)

cdef int pull_indices(Run *run, Node *node, uint32_t **index, size_t count) noexcept nogil:
    cdef void *narrow = scratch(run, node, 0)
    cdef int status = pull(run, node.children, narrow, count)
    if status:
        return status
    index[0] = <uint32_t *>scratch(run, node, 1)
    brv_put_field(index[0], 32, narrow, node.children[0].width, 0, True, count)
    return OK

cdef int lookup_words(Run *run, Node *node, void *dst, size_t count) noexcept nogil:
    cdef uint32_t *index
    cdef int status = pull_indices(run, node, &index, count)
    if status:
        return status
    return CORRUPT if brv_lookup(dst, index, (<Buffered *>node.state).words, node.operands[1], node.width, count) else OK

cdef int lookup_runs(Run *run, Node *node, void *dst, size_t count) noexcept nogil:
    cdef Buffered *state = <Buffered *>node.state
    cdef uint32_t *index
    cdef uint64_t r = node.operands[0]
    cdef size_t at = 0, part, i, batch, size = brv_size(node.width)
    cdef int status
    while at < count:
        batch = 0 if state.left else max((count - at) // r, 1)  # whole runs, or one that goes on in the next tile
        if batch:
            status = pull_indices(run, node, &index, batch)
            if status:
                return status
        for i in range(max(batch, 1)):
            if batch:
                if index[i] >= node.operands[1]:
                    return CORRUPT
                state.at, state.left = index[i] * r, r
            part = min(<uint64_t>(count - at), state.left)
            memcpy(behind(dst, node.width, at), behind(state.words, node.width, state.at), part * size)
            at += part
            state.at += part
            state.left -= part
    return OK

def lookup_encode(operands, Words words):
    """Operand: the length of the runs. The table holds the distinct runs: in ascending order for runs of
    one word, else as they come.
    """
    cdef size_t r = operands[0], i, size = brv_size(words.width) * r
    cdef Words index, table
    if words.count % r:
        raise Unfit("lookup: no whole number of runs")
    if r == 1:
        return palette_encode(words)
    numbers = {}
    order = [numbers.setdefault((<uint8_t *>words.data)[i * size:(i + 1) * size], len(numbers)) for i in range(words.count // r)]
    if len(numbers) < 2:
        raise Unfit("lookup: one run")
    table = Words.room(words.width, len(numbers) * r)
    for i, run in enumerate(numbers):
        memcpy(<uint8_t *>table.data + i * size, <const uint8_t *>run, size)
    index = Words.room(32, len(order))
    for i in range(index.count):
        (<uint32_t *>index.data)[i] = order[i]
    return (r, len(numbers)), (narrowed(index, index_width(len(numbers))), table), None

cdef tuple palette_encode(Words words):
    cdef Histogram h = Histogram.of(words)
    cdef Words table, index
    cdef uint16_t *numbers
    cdef size_t i
    if h is None or h.count < 2:
        raise Unfit("lookup: too many or too few distinct words")
    table = Words.room(words.width, h.count)
    for i in range(h.count):
        brv_fill(behind(table.data, words.width, i), h.symbols[i], words.width, 1)
    index = Words.room(16, words.count)
    numbers = h.number(words)
    memcpy(index.data, numbers, words.count * sizeof(uint16_t))
    free(numbers)
    return (1, h.count), (narrowed(index, index_width(h.count)), table), None

cdef Words narrowed(Words words, unsigned width):
    cdef Words fields = Words.room(width, words.count)
    brv_take_field(fields.data, width, words.data, words.width, 0, words.count)
    return fields


# ---- the rows ----

cdef Op ROWS[14]
cdef const Op *BY_NUMBER[256]

cdef void row(size_t i, uint8_t number, const char *name, const char *layout, check_function check, start_function start,
              pull_function pull_words, bint decompress=False) noexcept:
    ROWS[i] = Op(number, name, layout, 1, decompress, check, start, pull_words)
    BY_NUMBER[number] = &ROWS[i]

# Operand layouts: v a varint; P a number k and k - 1 more; B a number b and b + 1 more; F a function of map
# and its operand, if it has one; S one of scan.
row(0, 0x01, b"raw", b"", raw_check, raw_start, raw_pull)
row(1, 0x02, b"packed", b"vv", packed_check, packed_start, packed_pull)
row(2, 0x03, b"huffman", b"v", sized_check, huffman_start, huffman_pull)
row(3, 0x04, b"rans", b"vB", rans_check, rans_start, rans_pull)
row(4, 0x05, b"zstd", b"v", zstd_check, raw_start, raw_pull, True)
row(5, 0x10, b"const", b"v", const_check, start_nothing, const_pull)
row(6, 0x11, b"concat", b"P", concat_check, concat_start, concat_pull)
row(7, 0x12, b"repeat", b"v", repeat_check, buffer_start, repeat_pull)
row(8, 0x13, b"map", b"F", map_check, start_nothing, map_pull)
row(9, 0x14, b"scan", b"Sv", scan_check, scan_start, scan_pull)
row(10, 0x15, b"merge", b"P", merge_check, one_tile_start, merge_pull)
row(11, 0x16, b"stretch", b"v", stretch_check, stretch_start, stretch_pull)
row(12, 0x17, b"weave", b"P", weave_check, two_tiles_start, weave_pull)
row(13, 0x18, b"lookup", b"vv", lookup_check, lookup_start, lookup_pull)

cdef const Op *op_at(uint8_t number) noexcept nogil:
    """The row of an opcode, or NULL."""
    return BY_NUMBER[number]

cdef const Op *op_named(str name) except NULL:
    for op in ROWS:
        if op.name == name.encode():
            return BY_NUMBER[op.number]
    raise KeyError(name)

def table() -> list[tuple[int, str, str, int]]:
    """(number, name, operand layout, since) of every operator."""
    return [(op.number, op.name.decode(), op.layout.decode(), op.since) for op in ROWS]

def encode(str name, tuple operands, Words words):
    """(operands to write, streams for the children, payload or None) that make exactly these words, or Unfit.

    What the operands say is told by the operator's function above: what is to be chosen, not what follows
    from the words.
    """
    encoder = globals().get(name + "_encode") or getattr(literals, name + "_encode")
    return encoder(operands, words)
