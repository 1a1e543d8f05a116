"""What operators share: the node of a program, the memory of a run, and how words are pulled.

May assume that sizes were bounded by the checks. Knows no operator.
"""
from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memset


cdef void *take(Run *run, uint64_t size) noexcept nogil:
    """Memory that lives as long as the run; NULL where there is none. The checks have bounded `size`."""
    cdef void **held
    cdef void *block
    if run.held_count == run.held_room:
        held = <void **>realloc(run.held, (2 * run.held_room + 16) * sizeof(void *))
        if held == NULL:
            return NULL
        run.held, run.held_room = held, 2 * run.held_room + 16
    block = malloc(size + 16)
    if block != NULL:
        run.held[run.held_count] = block
        run.held_count += 1
    return block


cdef void release(Run *run) noexcept nogil:
    cdef size_t i
    for i in range(run.held_count):
        free(run.held[i])
    free(run.held)
    memset(run, 0, sizeof(Run))


cdef int need_scratch(Run *run, Node *node, unsigned tiles) noexcept nogil:
    """Scratch tiles 0 and, for two, 1 of the node's depth: one node of a depth runs at a time, and its
    children use deeper ones.
    """
    cdef unsigned i
    for i in range(2 * node.depth, 2 * node.depth + tiles):
        if run.scratch[i] == NULL:
            run.scratch[i] = take(run, TILE * sizeof(uint64_t))
            if run.scratch[i] == NULL:
                return NO_MEMORY
    return OK


cdef int pull(Run *run, Node *node, void *dst, size_t count) noexcept nogil:
    cdef int status = node.op.pull(run, node, dst, count)
    node.done += count
    return status


cdef int pull_all(Run *run, Node *node, void *dst) noexcept nogil:
    """All words of a node into a buffer."""
    cdef int status
    while node.done < node.count:
        status = pull(run, node, behind(dst, node.width, node.done), min(<uint64_t>TILE, node.count - node.done))
        if status:
            return status
    return OK
