"""Programs: bytes ⇄ nodes ⇄ text, driven by the table of operators.

Reading is the one pass of checks: after it every type, length and limit of FORMAT.md §4 is known to hold, and
no word has been made yet. Writing goes from terms (an operator, its operands, its children, its payload) to
bytes. Knows no operator by name.
"""
from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport calloc, free, realloc

from brevis.bits cimport Bytes, read_varint
from brevis.kernels cimport BRV_ADD, BRV_ORDERED, BRV_ROTATE, BRV_XOR
from brevis.node cimport INVALID, MAX_BLOCKS, MAX_CHILDREN, MAX_DEPTH, MAX_NODES, NO_MEMORY, OK, UNSUPPORTED, Node, Type
from brevis.ops cimport op_at, op_named
from brevis.words cimport Words

from typing import NamedTuple

from brevis import ops
from brevis.errors import InvalidProgramError, UnsupportedError
from brevis.literals import best_literal

cdef enum:
    ALLOWANCE = 65536       # FORMAT.md Q6, Q7: what even the smallest chunk may use
    BUFFERS = 2             # bytes, for each byte of content
    WORDS = 32              # words of all nodes, for each byte of content


LITERAL = "lit"     # the operator of a term that stands for any literal; its operand may be a zstd level to try


class Term(NamedTuple):
    """A node as the encoder builds and the reader shows it. To be encoded, `operands` says what
    `ops.encode` of the operator wants to know, and children are terms for its streams; encoded, it holds
    exactly what is written, and `size` is that of the payload.
    """

    op: str
    operands: tuple = ()
    children: tuple = ()
    payload: bytes | None = None
    width: int = 0
    count: int = 0

    def __str__(self) -> str:
        operands = f"[{', '.join(map(str, self.operands))}]" if self.operands else ""
        children = f"({', '.join(map(str, self.children))})" if self.children else ""
        return self.op + operands + children


# ---- reading ----

cdef class Program:
    def __cinit__(self):
        self.nodes = <Node *>calloc(MAX_NODES, sizeof(Node))
        if self.nodes == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.nodes)
        free(self.operands)

    @staticmethod
    def parse(body, unsigned width, uint64_t content, offset: int | None = None, code_offset: int = 0) -> Program:
        """Read and check a program of `width`-bit words whose content has `content` bytes.

        `offset` is where its record stands, `code_offset` where its code does: errors name them. Raises
        InvalidProgramError, UnsupportedError.
        """
        cdef Program program = Program()
        if not 1 <= width <= 64 or not content or content * 8 % width:
            raise ValueError(f"{content} bytes are no words of {width} bits")
        cdef const uint8_t[::1] view = memoryview(body).cast("B")
        program.owner = view
        program.size = view.shape[0]
        program.data = &view[0] if program.size else NULL
        fault = program.read(width, content * 8 // width, content)
        if fault is not None:
            error, at, reason = fault
            raise error(f"program: {reason}", offset=code_offset + at)
        return program

    cdef read(self, unsigned width, uint64_t count, uint64_t content):
        """None, or (error class, position in the code, reason)."""
        cdef unsigned pending[MAX_NODES]
        cdef unsigned waiting = 1, first, i
        cdef Bytes code = Bytes(self.data, self.size, 0, False)
        cdef Type children[MAX_CHILDREN + 1]
        cdef Node *node
        cdef uint64_t buffers = 0, words = 0
        cdef size_t at
        cdef int status
        order = []
        self.nodes[0].width, self.nodes[0].count, self.nodes[0].depth = width, count, 1
        self.node_count, pending[0] = 1, 0
        while waiting:
            waiting -= 1
            node = &self.nodes[pending[waiting]]
            at = node.at = code.at
            if code.at >= code.size:
                return InvalidProgramError, at, "the code ends too early"
            node.op = op_at(code.data[code.at])
            if node.op == NULL:
                return UnsupportedError, at, f"unknown operator {code.data[code.at]:#04x}"
            code.at += 1
            node.first_operand = self.operand_count
            status = self.read_operands(&code, node)
            if status == NO_MEMORY:
                raise MemoryError
            if status == UNSUPPORTED:
                return UnsupportedError, at, f"unknown function of {node.op.name.decode()}"
            if status != OK or self.check(node, children) != OK:
                return InvalidProgramError, at, f"operands of {node.op.name.decode()} break its rules"
            if node.child_count and node.depth == MAX_DEPTH or self.node_count + node.child_count > MAX_NODES:
                return InvalidProgramError, at, "too many nodes, or too deep"
            words += node.count
            buffers += node.charge
            if words > WORDS * content + ALLOWANCE or buffers > BUFFERS * content + ALLOWANCE:
                return InvalidProgramError, at, "more words or buffers than a program may use"
            first = self.node_count
            for i in range(node.child_count):
                self.nodes[first + i].width, self.nodes[first + i].count = children[i].width, children[i].count
                self.nodes[first + i].depth = node.depth + 1
                pending[waiting + node.child_count - 1 - i] = first + i
            node.children = &self.nodes[first]
            self.node_count += node.child_count
            waiting += node.child_count
            if not node.child_count:
                order.append(node - self.nodes)
        self.code_size = code.at
        for i in range(self.node_count):
            self.nodes[i].operands = self.operands + self.nodes[i].first_operand
        return self.place_payloads(order)

    cdef int read_operands(self, Bytes *code, Node *node) noexcept:
        """As the layout says; node.operand_count of them."""
        cdef const char *layout = node.op.layout
        cdef uint64_t value, more
        cdef size_t before = self.operand_count
        cdef int status
        while layout[0]:
            value = read_varint(code)
            if not code.bad and value > highest_function(layout[0]):
                return UNSUPPORTED
            more = operands_after(layout[0], value)
            if code.bad or more > code.size - code.at:
                return INVALID
            status = self.keep(value)
            while status == OK and more:
                status = self.keep(read_varint(code))
                more -= 1
            if status or code.bad:
                return status or INVALID
            layout += 1
        node.operand_count = self.operand_count - before
        return OK

    cdef int keep(self, uint64_t value) noexcept:
        cdef uint64_t *room
        if self.operand_count == self.operand_room:
            room = <uint64_t *>realloc(self.operands, (2 * self.operand_room + 64) * sizeof(uint64_t))
            if room == NULL:
                return NO_MEMORY
            self.operands, self.operand_room = room, 2 * self.operand_room + 64
        self.operands[self.operand_count] = value
        self.operand_count += 1
        return OK

    cdef int check(self, Node *node, Type *children) noexcept:
        node.operands = self.operands + node.first_operand
        return node.op.check(node, children)

    cdef place_payloads(self, list order):
        """Payloads lie behind the code in the order of their literals, and fill the body (P3)."""
        cdef size_t at = self.code_size
        cdef Node *node
        for index in order:
            node = &self.nodes[<size_t>index]
            if node.payload_size > self.size - at:
                return InvalidProgramError, self.code_size, "payloads are missing"
            node.payload = self.data + at
            at += node.payload_size
        if at != self.size:
            return InvalidProgramError, self.code_size, "bytes are left over behind the payloads"
        return None

    def term(self) -> Term:
        """The program as a term."""
        return self.term_of(self.nodes)

    cdef term_of(self, Node *node):
        cdef size_t i
        return Term(
            node.op.name.decode(),
            tuple([node.operands[i] for i in range(node.operand_count)]),
            tuple([self.term_of(&node.children[i]) for i in range(node.child_count)]),
            None if node.child_count else bytes(node.payload[:node.payload_size]),
            node.width,
            node.count,
        )


cdef uint64_t highest_function(char kind) noexcept nogil:
    """The highest number of a function that a layout letter may name."""
    return BRV_ORDERED if kind == b"F" else BRV_ADD if kind == b"S" else <uint64_t>-1


cdef uint64_t operands_after(char kind, uint64_t value) noexcept nogil:
    """How many operands a layout letter stands for, behind the first of them (see the table in ops.pyx).
    Too many never fit the code.
    """
    if kind == b"P":
        return value - 1 if 1 < value <= MAX_CHILDREN else <uint64_t>-1
    if kind == b"B":
        return value + 1 if 0 < value <= MAX_BLOCKS else <uint64_t>-1
    if kind == b"F":
        return value == BRV_XOR or value == BRV_ADD or value == BRV_ROTATE
    return 0


# ---- writing ----

cdef varint(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return out


def encode(term: Term, Words words) -> Term:
    """The term with everything that is to be written: operands and payloads that make exactly these words.
    A term LITERAL becomes the smallest literal. Raises ops.Unfit.
    """
    if term.op == LITERAL:
        op, operands, payload = best_literal(words, *term.operands)
        return Term(op, operands, (), payload, words.width, words.count)
    operands, streams, payload = ops.encode(term.op, term.operands, words)
    children = tuple([encode(child, stream) for child, stream in zip(term.children, streams, strict=True)])
    return Term(term.op, operands, children, payload, words.width, words.count)


def write(term: Term) -> bytes:
    """Code and payloads of an encoded term."""
    code, payloads = bytearray(), []
    write_node(term, code, payloads)
    return b"".join([bytes(code), *payloads])


cdef write_node(term, bytearray code, list payloads):
    code.append(op_named(term.op).number)
    for operand in term.operands:
        code += varint(operand)
    if term.payload is not None:
        payloads.append(term.payload)
    for child in term.children:
        write_node(child, code, payloads)
