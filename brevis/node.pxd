from libc.stdint cimport uint8_t, uint64_t

from brevis.kernels cimport brv_size

# What a check or a run found. The classes are those of FORMAT.md §6.
cdef enum:
    OK
    INVALID
    UNSUPPORTED
    CORRUPT
    NO_MEMORY

cdef enum:
    MAX_NODES = 1024
    MAX_DEPTH = 32
    MAX_CHILDREN = 256
    MAX_BLOCKS = 65536
    TILE = 8192             # words pulled at a time: 64 KiB of the widest, so that a few of them stay in an L2 cache

cdef struct Type:
    unsigned width
    uint64_t count

cdef struct Node:
    const Op *op
    unsigned width
    uint64_t count          # words
    unsigned depth
    size_t at               # of the opcode in the code
    const uint64_t *operands
    size_t operand_count
    size_t first_operand    # in the program's array, which moves while it is read
    Node *children
    unsigned child_count
    const uint8_t *payload
    uint64_t payload_size
    uint64_t charge         # buffer bytes (FORMAT.md Q6)
    uint64_t done           # words pulled so far
    void *state

# What running needs beside the nodes: memory that is freed as one, and two scratch tiles for each depth.
cdef struct Run:
    void **held
    size_t held_count
    size_t held_room
    void *scratch[2 * (MAX_DEPTH + 1)]

ctypedef int (*check_function)(Node *node, Type *children) noexcept nogil
ctypedef int (*start_function)(Run *run, Node *node) noexcept nogil
ctypedef int (*pull_function)(Run *run, Node *node, void *dst, size_t count) noexcept nogil

cdef struct Op:
    uint8_t number
    const char *name
    const char *layout      # of the operands: see operand_layout in program.pyx
    uint8_t since           # format version
    bint decompress         # its payload is a zstd frame, to be decoded before the run
    check_function check    # the operands against the rules; types of the children, payload size, buffer charge
    start_function start    # tables and buffers, before the first word
    pull_function pull      # the next words

cdef void *take(Run *run, uint64_t size) noexcept nogil
cdef void release(Run *run) noexcept nogil
cdef int need_scratch(Run *run, Node *node, unsigned tiles) noexcept nogil
cdef int pull(Run *run, Node *node, void *dst, size_t count) noexcept nogil
cdef int pull_all(Run *run, Node *node, void *dst) noexcept nogil

cdef inline void *scratch(Run *run, Node *node, unsigned i) noexcept nogil:
    return run.scratch[2 * node.depth + i]

cdef inline void *behind(void *words, unsigned w, size_t i) noexcept nogil:
    return <uint8_t *>words + i * brv_size(w)

cdef inline bint is_word(uint64_t x, unsigned w) noexcept nogil:
    return w == 64 or x >> w == 0

cdef inline int check_leaf(Node *node, uint64_t payload_size) noexcept nogil:
    node.child_count = 0
    node.payload_size = payload_size
    return OK

cdef inline int start_nothing(Run *run, Node *node) noexcept nogil:
    return OK
