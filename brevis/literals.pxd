from brevis.node cimport Node, Run, Type
from brevis.words cimport Words

cdef int raw_check(Node *node, Type *children) noexcept nogil
cdef int raw_start(Run *run, Node *node) noexcept nogil
cdef int raw_pull(Run *run, Node *node, void *dst, size_t count) noexcept nogil
cdef int packed_check(Node *node, Type *children) noexcept nogil
cdef int packed_start(Run *run, Node *node) noexcept nogil
cdef int packed_pull(Run *run, Node *node, void *dst, size_t count) noexcept nogil
cdef int zstd_check(Node *node, Type *children) noexcept nogil
cdef int sized_check(Node *node, Type *children) noexcept nogil
cdef int huffman_start(Run *run, Node *node) noexcept nogil
cdef int huffman_pull(Run *run, Node *node, void *dst, size_t count) noexcept nogil
cdef int rans_check(Node *node, Type *children) noexcept nogil
cdef int rans_start(Run *run, Node *node) noexcept nogil
cdef int rans_pull(Run *run, Node *node, void *dst, size_t count) noexcept nogil
cdef int const_check(Node *node, Type *children) noexcept nogil
cdef int const_pull(Run *run, Node *node, void *dst, size_t count) noexcept nogil

cdef Words copy(Words words)
