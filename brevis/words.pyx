"""Streams as the encoder holds them: words of one width in machine-sized containers.

May assume that widths are 1 to 64. Knows nothing of operators; the decoder does not need it.
"""
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint64_t, uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from brevis.kernels cimport brv_pack, brv_size, brv_unpack, brv_word

import sys

cdef bint LITTLE = sys.byteorder == "little"


cdef class Words:
    """`count` words of `width` bits, in containers of 1, 2, 4 or 8 bytes."""

    def __dealloc__(self):
        free(self.owned)    # not by whether there is an owner: a collector of cycles may have taken that

    @staticmethod
    cdef Words room(unsigned width, size_t count):
        """Room for words that the caller fills in, and 8 more."""
        cdef Words words = Words.__new__(Words)
        words.width = width
        words.count = count
        words.data = words.owned = malloc((count + 8) * brv_size(width))
        if words.data == NULL:
            raise MemoryError
        return words

    @staticmethod
    def of(content, unsigned width) -> Words:
        """The words of a contiguous buffer of bytes (FORMAT.md §2); borrowed where its memory already is
        in containers.
        """
        cdef Words words
        cdef const uint8_t[::1] view = memoryview(content).cast("B")
        cdef size_t size = view.shape[0], count
        if not 1 <= width <= 64:
            raise ValueError(f"there are no words of {width} bits")
        count = size * 8 // width
        if size * 8 % width:
            raise ValueError(f"{size} bytes are no whole number of {width}-bit words")
        if LITTLE and size and width == 8 * brv_size(width) and <uintptr_t>&view[0] % brv_size(width) == 0:
            words = Words.__new__(Words)
            words.width, words.count, words.owner, words.data = width, count, view, <void *>&view[0]
            return words
        words = Words.room(width, count)
        if size:
            with nogil:
                brv_unpack(words.data, &view[0], size, 0, width, count)
        return words

    cdef Words part(self, size_t start, size_t count):
        """A run of the words, sharing their memory."""
        cdef Words words = Words.__new__(Words)
        words.width, words.count, words.owner = self.width, count, self
        words.data = <uint8_t *>self.data + start * brv_size(self.width)
        return words

    def tobytes(self) -> bytes:
        """The bit string of the words, padded with zero bits to whole bytes."""
        # brv_pack overwrites 8 bytes more, so that the last 64 to 71 words, at least 8 bytes, go another way
        cdef size_t size = (self.width * self.count + 7) // 8, direct = (max(self.count, 64) - 64) // 8 * 8
        cdef size_t head = direct // 8 * self.width
        cdef uint8_t tail[72 * 8 + 8]
        cdef bytes packed = PyBytes_FromStringAndSize(NULL, size)
        cdef uint8_t *dst = packed
        with nogil:
            brv_pack(dst, self.data, self.width, direct)
            brv_pack(tail, <uint8_t *>self.data + direct * brv_size(self.width), self.width, self.count - direct)
            memcpy(dst + head, tail, size - head)
        return packed

    def __getitem__(self, size_t i) -> int:
        if i >= self.count:
            raise IndexError(i)
        return self.word(i)

    def __len__(self) -> int:
        return self.count

    cdef uint64_t word(self, size_t i) noexcept nogil:
        return brv_word(self.data, self.width, i)
