#!/usr/bin/env node
// A decoder of `.brv` archives, version 1, in plain JavaScript: written from FORMAT.md alone, so that it shares no
// mistake with the other decoders. Node 20 or later, no packages, and no Zstandard (rule Z1).
//
//     node brv.mjs < archive > content       exit status 0; or 1, with one line of JSON on standard error
//     node brv.mjs --json-lines              reads lines {"file": path}, answers each with one line
//
// Ids in brackets, such as [P2], are the rules of FORMAT.md.

import { createHash } from 'node:crypto';
import { closeSync, openSync, readSync, writeSync } from 'node:fs';
import { createInterface } from 'node:readline';

/** A refusal. An offset of null stands for that of the header or record that is being read. */
class Fault extends Error {
  constructor(kind, message, offset = null) {
    super(message);
    this.kind = kind;
    this.offset = offset;
  }
}

function check(condition, kind, message, offset = null) {
  if (!condition) throw new Fault(kind, message, offset);
}

const corruptUnless = (condition, message) => check(condition, 'corrupt', message);

// ---------------------------------------------------------------------------------------------------- §1 bytes and bits

const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  for (let bit = 0; bit < 8; bit++) byte = byte & 1 ? (byte >>> 1) ^ 0xedb88320 : byte >>> 1;
  return byte;
});

/** CRC-32 of bytes, going on from that of the bytes before them. */
function crc32(bytes, before = 0) {
  let crc = ~before;
  for (let i = 0; i < bytes.length; i++) crc = CRC_TABLE[(crc ^ bytes[i]) & 255] ^ (crc >>> 8);
  return ~crc >>> 0;
}

const view = (bytes) => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
const u16 = (bytes, at) => view(bytes).getUint16(at, true);
const u32 = (bytes, at) => view(bytes).getUint32(at, true);
const u64 = (bytes, at) => view(bytes).getBigUint64(at, true);

/** [V1] The varint at `at` as {value, next}, or null where there is none in shortest form. */
function readVarint(bytes, at) {
  let value = 0n;
  for (let group = 0; group < 10 && at + group < bytes.length; group++) {
    const byte = bytes[at + group];
    value |= BigInt(byte & 127) << BigInt(7 * group);
    if (byte & 128) continue;
    if ((byte === 0 && group > 0) || (group === 9 && byte > 1)) return null;
    return { value, next: at + group + 1 };
  }
  return null;
}

function varintBytes(value) {
  const bytes = [];
  for (value = BigInt(value); value > 127n; value >>= 7n) bytes.push(Number(value & 127n) | 128);
  return [...bytes, Number(value)];
}

/** [V2] The field of `k <= 32` bits at bit `p`. Bits behind the last byte read as zeros. */
function field(bytes, p, k) {
  if (k === 0) return 0;
  const at = p >>> 3;
  const shift = p & 7;
  let value = (bytes[at] | (bytes[at + 1] << 8) | (bytes[at + 2] << 16) | (bytes[at + 3] << 24)) >>> shift;
  if (shift + k > 32) value |= bytes[at + 4] << (32 - shift);
  return k === 32 ? value >>> 0 : (value & ((1 << k) - 1)) >>> 0;
}

/** [V2] Bits between bit `p` and the end of its byte are zeros; the bit string ends with the last byte. */
function checkBitStringEnd(bytes, p) {
  corruptUnless(Math.ceil(p / 8) === bytes.length, 'a bit string does not end with its payload');
  corruptUnless(p % 8 === 0 || bytes[p >>> 3] >>> (p & 7) === 0, 'padding bits are not zero');
}

/** Fields one after another, as tables need them. */
class BitReader {
  constructor(bytes) {
    this.bytes = bytes;
    this.p = 0;
  }

  /** The next `k <= 64` bits, as BigInt. */
  field(k) {
    corruptUnless(this.p + k <= 8 * this.bytes.length, 'a table runs past its payload');
    const low = BigInt(field(this.bytes, this.p, Math.min(k, 32)));
    const high = k > 32 ? BigInt(field(this.bytes, this.p + 32, k - 32)) : 0n;
    this.p += k;
    return (high << 32n) | low;
  }

  /** [V3] */
  expGolomb(k) {
    let zeros = 0;
    while (this.field(1) === 0n) corruptUnless(++zeros <= 63, 'an exp-Golomb code has more than 63 leading zeros');
    const a = this.field(zeros);
    const b = this.field(k);
    const value = (((1n << BigInt(zeros)) + a - 1n) << BigInt(k)) + b;
    corruptUnless(value < 1n << 64n, 'an exp-Golomb code stands for 2^64 or more');
    return value;
  }
}

// ---------------------------------------------------------------------------------------------------------- §2 words

const maskLow = (w) => (w >= 32 ? 0xffffffff : 2 ** w - 1);
const maskHigh = (w) => (w > 32 ? 2 ** (w - 32) - 1 : 0);
const low = (big) => Number(big & 0xffffffffn);
const high = (big) => Number(big >> 32n);

// A word of more than 32 bits is a pair of a low and a high half; these are the halves of shifted pairs, 0 <= s < 64.
const leftLow = (l, h, s) => (s < 32 ? l << s : 0);
const leftHigh = (l, h, s) => (s === 0 ? h : s < 32 ? (h << s) | (l >>> (32 - s)) : l << (s - 32));
const rightLow = (l, h, s) => (s === 0 ? l : s < 32 ? (l >>> s) | (h << (32 - s)) : h >>> (s - 32));
const rightHigh = (l, h, s) => (s < 32 ? h >>> s : 0);

/** A stream of `n` words of `w` bits: arrays of their low halves and, where w > 32, their high halves. */
class Words {
  constructor(w, n) {
    this.w = w;
    this.n = n;
    this.low = w <= 8 ? new Uint8Array(n) : w <= 16 ? new Uint16Array(n) : new Uint32Array(n);
    this.high = w > 32 ? new Uint32Array(n) : null;
  }

  copyWord(i, from, j) {
    this.low[i] = from.low[j];
    if (this.high) this.high[i] = from.high[j];
  }

  /** Words [begin, end) of another stream to place `at`. */
  copy(at, from, begin = 0, end = from.n) {
    this.low.set(from.low.subarray(begin, end), at);
    if (this.high) this.high.set(from.high.subarray(begin, end), at);
  }

  fill(word) {
    this.low.fill(low(word));
    if (this.high) this.high.fill(high(word));
    return this;
  }

  /** Each word (l, h) becomes (toLow(l, h), toHigh(l, h)), mod 2^w. */
  transform(toLow, toHigh) {
    const [ml, mh] = [maskLow(this.w), maskHigh(this.w)];
    for (let i = 0; i < this.n; i++) {
      const l = this.low[i];
      const h = this.high ? this.high[i] : 0;
      this.low[i] = toLow(l, h) & ml;
      if (this.high) this.high[i] = toHigh(l, h) & mh;
    }
    return this;
  }
}

/** `n` words of `w` bits, read as consecutive fields of `v` bits. */
function unpack(bytes, v, w, n) {
  checkBitStringEnd(bytes, v * n);
  const words = new Words(w, n);
  const inLow = Math.min(v, 32);
  for (let i = 0; i < n; i++) {
    words.low[i] = field(bytes, i * v, inLow);
    if (v > 32) words.high[i] = field(bytes, i * v + 32, v - 32);
  }
  return words;
}

/** The bytes that a stream stands for. */
function pack({ w, n, low, high }) {
  if (w === 8) return low;
  const bytes = new Uint8Array((w * n) / 8);
  const put = (p, k, value) => {
    while (k > 0) {
      const room = 8 - (p & 7);
      bytes[p >>> 3] |= value << (p & 7);
      value >>>= room;
      p += room;
      k -= room;
    }
  };
  for (let i = 0; i < n; i++) {
    put(i * w, Math.min(w, 32), low[i]);
    if (high) put(i * w + 32, w - 32, high[i]);
  }
  return bytes;
}

// --------------------------------------------------------------------------------------------------- §5 entropy coders

/** §5.1 The table at the beginning of a payload: symbols (as Words), numbers, precision, and its length in bytes. */
function readTable(bytes, w, hasPrecision) {
  const bits = new BitReader(bytes);
  const s = Number(bits.field(12)) + 1;
  corruptUnless(s >= 2, 'a table of fewer than two symbols');
  const precision = hasPrecision ? Number(bits.field(4)) : 0;
  let word = bits.field(w);
  const gapOrder = Number(bits.field(6));
  const valueOrder = Number(bits.field(4));
  const symbols = new Words(w, s);
  for (let listed = 0; ; ) {
    const run = bits.expGolomb(1) + 1n;
    corruptUnless(run <= s - listed, 'a table of more symbols than it announces');
    corruptUnless(word + run <= 1n << BigInt(w), 'a symbol that does not fit the width');
    for (const end = word + run; word < end; word++, listed++) {
      symbols.low[listed] = low(word);
      if (symbols.high) symbols.high[listed] = high(word);
    }
    if (listed === s) break;
    word += bits.expGolomb(gapOrder) + 1n;
  }
  const numbers = [];
  for (let i = 0, number = 0n; i < s; i++) {
    const zigzag = bits.expGolomb(valueOrder);
    number += zigzag & 1n ? -((zigzag + 1n) >> 1n) : zigzag >> 1n;
    corruptUnless(number >= 1n && number <= 65535n, 'a number of a table is below 1 or above 65535');
    numbers.push(Number(number));
  }
  const size = Math.ceil(bits.p / 8);
  checkBitStringEnd(bytes.subarray(0, size), bits.p);
  return { symbols, numbers, precision, size };
}

const MAX_CODE = 12;

/** §5.2 */
function runHuffman({ w, n }, bytes) {
  const { symbols, numbers: lengths, size } = readTable(bytes, w, false);
  corruptUnless(Math.max(...lengths) <= MAX_CODE, 'a code longer than 12 bits');
  const sum = lengths.reduce((total, length) => total + 2 ** (MAX_CODE - length), 0);
  corruptUnless(sum === 2 ** MAX_CODE, 'code lengths are not those of a complete code');

  // Which symbol begins with which 12 bits, the first of them most significant.
  const symbolOf = new Uint16Array(2 ** MAX_CODE);
  let filled = 0;
  for (let length = 1; length <= MAX_CODE; length++) {
    for (let symbol = 0; symbol < lengths.length; symbol++) {
      if (lengths[symbol] !== length) continue;
      const end = filled + 2 ** (MAX_CODE - length);
      symbolOf.fill(symbol, filled, end);
      filled = end;
    }
  }

  // The same by the 12 bits as a field gives them, the first of them least significant.
  const byField = new Uint16Array(2 ** MAX_CODE);
  for (let bits = 0; bits < 2 ** MAX_CODE; bits++) {
    let reversed = 0;
    for (let i = 0; i < MAX_CODE; i++) reversed |= ((bits >>> i) & 1) << (MAX_CODE - 1 - i);
    byField[bits] = symbolOf[reversed];
  }

  const codes = bytes.subarray(size);
  corruptUnless(n <= 8 * codes.length, 'a payload too short for its words');
  const words = new Words(w, n);
  let p = 0;
  for (let i = 0; i < n; i++) {
    const symbol = byField[field(codes, p, MAX_CODE)];
    words.copyWord(i, symbols, symbol);
    p += lengths[symbol];
    corruptUnless(p <= 8 * codes.length, 'a payload too short for its words');
  }
  checkBitStringEnd(codes, p);
  return words;
}

/** §5.3 "Frequencies": they sum to 2^k. */
function frequenciesOf(numbers, precision, k) {
  const frequencies = numbers.map((number) => {
    if (number < 2 ** (precision + 1)) return number;
    return (2 ** precision + (number % 2 ** precision)) * 2 ** ((number >> precision) - 1);
  });
  corruptUnless(Math.max(...frequencies) < 2 ** k, 'a frequency of 2^k or more');
  const total = frequencies.reduce((sum, frequency) => sum + frequency, 0);
  const greatest = frequencies.indexOf(Math.max(...frequencies));
  frequencies[greatest] += 2 ** k - total;
  corruptUnless(frequencies[greatest] >= 1, 'frequencies that do not sum to 2^k');
  return frequencies;
}

/** §5.3 "Slots": for each bucket its split, its other symbol, and the ranks at which its two parts begin. */
function aliasBuckets(frequencies, k) {
  const s = frequencies.length;
  const a = Math.ceil(Math.log2(s));
  const bucketBits = k - a;
  const B = 2 ** bucketBits;
  const rest = Array.from({ length: 2 ** a }, (_, i) => (i < s ? frequencies[i] : 0));
  const split = rest.map(() => B);
  const other = rest.map((_, i) => i);
  const small = [];
  const large = [];
  rest.forEach((slots, i) => (slots < B ? small : large).push(i));
  while (small.length > 0) {
    const i = small.pop();
    const h = large.at(-1);
    split[i] = rest[i];
    other[i] = h;
    rest[h] -= B - rest[i];
    if (rest[h] < B) small.push(large.pop());
  }
  const seen = rest.map(() => 0);
  const rankOfOwn = [];
  const rankOfOther = [];
  for (let i = 0; i < rest.length; i++) {
    rankOfOwn.push(seen[i]);
    seen[i] += split[i];
    rankOfOther.push(seen[other[i]]);
    seen[other[i]] += B - split[i];
  }
  return { bucketBits, split, other, rankOfOwn, rankOfOther };
}

/** §5.3 */
function runRans({ w, n, lanes, k, tableSize, blockSizes }, bytes) {
  const { symbols, numbers, precision, size } = readTable(bytes.subarray(0, tableSize), w, true);
  corruptUnless(size === tableSize, 'a table shorter than its size says');
  const frequencies = frequenciesOf(numbers, precision, k);
  const { bucketBits, split, other, rankOfOwn, rankOfOther } = aliasBuckets(frequencies, k);
  const words = new Words(w, n);
  const perBlock = Math.ceil(n / blockSizes.length);
  const start = 2 ** 16;
  let at = tableSize;
  blockSizes.forEach((blockSize, block) => {
    const end = at + blockSize;
    const states = Array.from({ length: lanes }, (_, lane) => u32(bytes, at + 4 * lane));
    corruptUnless(states.every((x) => x >= start), 'a state below 2^16');
    at += 4 * lanes;
    const first = block * perBlock;
    const last = Math.min(first + perBlock, n);
    for (let i = first; i < last; i++) {
      const lane = (i - first) % lanes;
      let x = states[lane];
      const slot = x & (2 ** k - 1);
      const bucket = slot >>> bucketBits;
      const y = slot & (2 ** bucketBits - 1);
      const own = y < split[bucket];
      const symbol = own ? bucket : other[bucket];
      const rank = own ? rankOfOwn[bucket] + y : rankOfOther[bucket] + y - split[bucket];
      words.copyWord(i, symbols, symbol);
      x = frequencies[symbol] * (x >>> k) + rank;
      if (x < start) {
        corruptUnless(at < end, 'a renormalisation word is missing');
        x = x * start + (bytes[at] | (bytes[at + 1] << 8));
        at += 2;
      }
      states[lane] = x;
    }
    corruptUnless(at === end, 'a renormalisation word is left over');
    corruptUnless(states.every((x) => x === start), 'a state other than 2^16 at the end of a block');
  });
  return words;
}

// ---------------------------------------------------------------------------------------------------------- §4 programs

const bitsFor = (k) => Math.ceil(Math.log2(k));
const bytesFor = (bits) => Math.ceil(bits / 8);
const wordSize = (w) => (w <= 8 ? 1 : w <= 16 ? 2 : w <= 32 ? 4 : 8);

/** [P2] Operands `count` and then count − 1 parts of `total`, each at least 1; the last part is what is left. */
function readParts(code, total, most) {
  const parts = [];
  const count = code.number(2, most);
  for (let left = total; parts.length < count - 1; left -= parts.at(-1)) parts.push(code.number(1, left - 1));
  return [...parts, total - parts.reduce((sum, part) => sum + part, 0)];
}

/** A number of words that divides the node's. */
function readDivisor(code, n, least) {
  const divisor = code.number(least, n);
  code.demand(n % divisor === 0, 'an operand that does not divide the number of words');
  return divisor;
}

/** Functions of `map`: their operand, if any, and the halves of f(x) for the halves of x. */
const gray32 = (x) => {
  for (let s = 1; s < 32; s *= 2) x ^= x >>> s;
  return x;
};
const FUNCTIONS = [
  { read: (code, w) => code.word(w), low: (c) => (l) => l ^ low(c), high: (c) => (l, h) => h ^ high(c) },
  {
    read: (code, w) => code.word(w),
    low: (c) => (l) => l + low(c),
    high: (c) => (l, h) => h + high(c) + (l + low(c) > 0xffffffff ? 1 : 0),
  },
  // 2^w − (x + 1)/2 has the bits of ⌊x/2⌋, each inverted.
  { low: () => (l, h) => rightLow(l, h, 1) ^ -(l & 1), high: () => (l, h) => (h >>> 1) ^ -(l & 1) },
  { low: () => (l, h) => gray32(l) ^ -(gray32(h) & 1), high: () => (l, h) => gray32(h) },
  {
    read: (code, w) => code.number(1, w - 1),
    low: (r, w) => (l, h) => leftLow(l, h, r) | rightLow(l, h, w - r),
    high: (r, w) => (l, h) => leftHigh(l, h, r) | rightHigh(l, h, w - r),
  },
  {
    low: (_, w) => (l, h) => {
      if (w > 32) return h >>> (w - 33) ? l : ~l;
      return l >>> (w - 1) ? l & maskLow(w - 1) : ~l;
    },
    high: (_, w) => (l, h) => (h >>> (w - 33) ? h & maskHigh(w - 1) : ~h),
  },
];

/**
 * §4.3 For each opcode `read`, which takes the operands and gives what the node needs (types of children in `types`,
 * bytes of its payload in `payload`, its buffer charge in `charge`), and `run`, which makes the words of a node of its
 * payload's bytes or of the children's words. Words of children belong to the parent, which may change them.
 */
const OPERATORS = {
  0x01: {
    read: (code, w, n) => ({ payload: bytesFor(w * n) }),
    run: ({ w, n }, payload) => unpack(payload, w, w, n),
  },
  0x02: {
    read(code, w, n) {
      const v = code.number(1, w - 1);
      return { v, base: code.word(w), payload: bytesFor(v * n) };
    },
    run({ w, n, v, base }, payload) {
      const add = FUNCTIONS[1];
      return unpack(payload, v, w, n).transform(add.low(base), add.high(base));
    },
  },
  0x03: {
    read: (code) => ({ payload: code.size(1n) }),
    run: runHuffman,
  },
  0x04: {
    read(code, w, n) {
      const parameters = code.number(0, 63);
      const lanes = 2 ** (parameters & 7);
      code.demand(lanes <= 64, 'more than 64 lanes');
      const blocks = code.number(1, 65536);
      code.demand(blocks === Math.ceil(n / Math.ceil(n / blocks)), 'a number of blocks that leaves some empty');
      let payload = code.size(1n);
      const tableSize = Number(payload);
      const blockSizes = [];
      while (blockSizes.length < blocks) {
        const size = code.size(BigInt(4 * lanes));
        code.demand(size % 2n === 0n, 'an odd block size');
        blockSizes.push(Number(size));
        payload += size;
      }
      return { lanes, k: 8 + (parameters >>> 3), tableSize, blockSizes, payload };
    },
    run: runRans,
  },
  0x05: {
    read: (code, w, n) => ({ payload: code.size(1n), charge: bytesFor(w * n), unsupported: 'Zstandard' }),
  },
  0x10: {
    read: (code, w) => ({ c: code.word(w) }),
    run: ({ w, n, c }) => new Words(w, n).fill(c),
  },
  0x11: {
    read: (code, w, n) => ({ types: readParts(code, n, 256).map((part) => [w, part]) }),
    run({ w, n }, children) {
      const words = new Words(w, n);
      let at = 0;
      for (const child of children) {
        words.copy(at, child);
        at += child.n;
      }
      return words;
    },
  },
  0x12: {
    read(code, w, n) {
      const part = n / readDivisor(code, n, 2);
      return { types: [[w, part]], charge: wordSize(w) * part };
    },
    run({ w, n }, [child]) {
      const words = new Words(w, n);
      for (let at = 0; at < n; at += child.n) words.copy(at, child);
      return words;
    },
  },
  0x13: {
    read(code, w, n) {
      const f = FUNCTIONS[code.choice(FUNCTIONS.length)];
      return { f, operand: f.read?.(code, w), types: [[w, n]] };
    },
    run: ({ w, f, operand }, [child]) => child.transform(f.low(operand, w), f.high(operand, w)),
  },
  0x14: {
    read(code, w, n) {
      const op = code.choice(2);
      const init = code.word(w);
      code.demand(n >= 2, 'a scan of one word');
      return { op, init, types: [[w, n - 1]] };
    },
    run({ w, n, op, init }, [child]) {
      const words = new Words(w, n);
      words.copy(1, child);
      // The running word: what the transformation gave last.
      let [l, h, carry] = [0, 0, 0];
      words.low[0] = low(init);
      if (words.high) words.high[0] = high(init);
      if (op === 0) return words.transform((x) => (l ^= x), (_, x) => (h ^= x));
      return words.transform(
        (x) => {
          carry = l + x > 0xffffffff ? 1 : 0;
          return (l = (l + x) >>> 0);
        },
        (_, x) => (h = (h + x + carry) >>> 0),
      );
    },
  },
  0x15: {
    read: (code, w, n) => ({ types: readParts(code, w, w).map((part) => [part, n]) }),
    run({ w, n }, children) {
      const words = new Words(w, n);
      let shift = w;
      for (const child of children) {
        shift -= child.w;
        for (let i = 0; i < n; i++) {
          const l = child.low[i];
          const h = child.high ? child.high[i] : 0;
          words.low[i] |= leftLow(l, h, shift);
          if (words.high) words.high[i] |= leftHigh(l, h, shift);
        }
      }
      return words;
    },
  },
  0x16: {
    read: (code, w, n) => ({ types: [[w, n / readDivisor(code, n, 2)]] }),
    run({ w, n }, [child]) {
      const words = new Words(w, n);
      const r = n / child.n;
      for (let j = 0, i = 0; j < child.n; j++) {
        for (const end = i + r; i < end; i++) words.copyWord(i, child, j);
      }
      return words;
    },
  },
  0x17: {
    read(code, w, n) {
      const parts = readParts(code, n, 256);
      return { types: [[bitsFor(parts.length), n], ...parts.map((part) => [w, part])] };
    },
    run({ w, n }, [selector, ...children]) {
      const words = new Words(w, n);
      const taken = children.map(() => 0);
      for (let i = 0; i < n; i++) {
        const j = selector.low[i];
        corruptUnless(j < children.length, 'a weave that selects a child that is not there');
        corruptUnless(taken[j] < children[j].n, 'a weave that takes more words than a child has');
        words.copyWord(i, children[j], taken[j]++);
      }
      return words;
    },
  },
  0x18: {
    read(code, w, n) {
      const r = readDivisor(code, n, 1);
      const m = code.number(2, Math.floor(n / r));
      return { r, m, types: [[bitsFor(m), n / r], [w, m * r]], charge: wordSize(w) * m * r };
    },
    run({ w, n, r, m }, [index, table]) {
      const words = new Words(w, n);
      for (let j = 0; j < n / r; j++) {
        const t = index.low[j];
        corruptUnless(t < m, 'a lookup behind the end of its table');
        if (r === 1) words.copyWord(j, table, t);
        else words.copy(j * r, table, t * r, (t + 1) * r);
      }
      return words;
    },
  },
};

/** The code of a program, read and checked node by node; `origin` is the offset in the file of its first byte. */
class Code {
  constructor(bytes, origin, D) {
    Object.assign(this, { bytes, origin, D, at: 0, opcodeAt: 0 });
    Object.assign(this, { nodes: 1, charges: 0, words: 0, payloads: 0n, lacking: null });
  }

  demand(condition, message) {
    check(condition, 'invalid', message, this.origin + this.opcodeAt);
  }

  varint() {
    const varint = readVarint(this.bytes, this.at);
    this.demand(varint !== null, 'an operand that is cut short, or no varint in shortest form');
    this.at = varint.next;
    return varint.value;
  }

  /** An operand between least and most, which are small enough for a Number. */
  number(least, most) {
    const value = this.varint();
    this.demand(value >= least && value <= most, `an operand of ${value}, not between ${least} and ${most}`);
    return Number(value);
  }

  word(w) {
    const value = this.varint();
    this.demand(value < 1n << BigInt(w), 'a word that does not fit the width');
    return value;
  }

  size(least) {
    const value = this.varint();
    this.demand(value >= least, `a size of ${value}, less than ${least}`);
    return value;
  }

  /** [P1] The number of a function. */
  choice(count) {
    const value = this.varint();
    check(value < count, 'unsupported', `function ${value}`, this.origin + this.opcodeAt);
    return Number(value);
  }

  node(w, n, depth) {
    const offset = this.origin + this.at;
    check(this.at < this.bytes.length, 'invalid', 'the code ends before an opcode', offset);
    this.opcodeAt = this.at;
    const opcode = this.bytes[this.at++];
    const operator = OPERATORS[opcode];
    check(operator !== undefined, 'unsupported', `operator ${opcode}`, offset);
    const { types = [], payload = 0, charge = 0, unsupported = null, ...operands } = operator.read(this, w, n);
    this.nodes += types.length;
    this.charges += charge;
    this.words += n;
    this.payloads += BigInt(payload);
    this.lacking ??= unsupported;
    this.demand(this.nodes <= 1024, '[Q2] more than 1024 nodes');
    this.demand(types.length === 0 || depth <= 31, '[Q3] nodes deeper than 31');
    this.demand(this.charges <= 2 * this.D + 65536, '[Q6] too many buffers');
    this.demand(this.words <= 32 * this.D + 65536, '[Q7] too many words');
    const children = types.map(([width, count]) => this.node(width, count, depth + 1));
    return { run: operator.run, w, n, payload: BigInt(payload), children, ...operands };
  }

  program(w, n) {
    const root = this.node(w, n, 1);
    const rest = BigInt(this.bytes.length - this.at);
    check(this.payloads === rest, 'invalid', '[P3] payloads do not fill the body', this.origin + this.at);
    check(this.lacking === null, 'unsupported', `this decoder has no ${this.lacking}`);
    return root;
  }
}

/** The bytes that the program in `bytes` denotes. */
function runProgram(bytes, origin, w, D) {
  const code = new Code(bytes, origin, D);
  const root = code.program(w, (8 * D) / w);
  let at = code.at;
  const run = (node) => {
    if (node.children.length > 0) return node.run(node, node.children.map(run));
    const begin = at;
    at += Number(node.payload);
    return node.run(node, bytes.subarray(begin, at));
  };
  return pack(run(root));
}

// --------------------------------------------------------------------------------------------------------- §3 container

const MAGIC = [0x89, 0x42, 0x52, 0x56, 0x0d, 0x0a, 0x1a, 0x0a];
const SYNC = [0xab, 0x72, 0xc6];
const [CHUNK, INDEX, FOOTER, LAYOUT, METADATA, PAD] = [0x01, 0x02, 0x03, 0x81, 0x82, 0x83];

const beginsLike = (bytes, expected) => expected.every((byte, i) => i >= bytes.length || bytes[i] === byte);

/** A file or pipe, read from its beginning to its end. */
class Source {
  constructor(descriptor) {
    this.descriptor = descriptor;
    this.buffer = Buffer.alloc(65536);
    this.begin = 0;
    this.end = 0;
    this.position = 0;
  }

  atEnd() {
    if (this.begin === this.end) {
      this.begin = 0;
      this.end = patiently(() => readSync(this.descriptor, this.buffer, 0, this.buffer.length, null));
    }
    return this.end === 0;
  }

  /** The next bytes, up to `most` of them, in no particular number. */
  some(most) {
    if (this.atEnd()) return this.buffer.subarray(0, 0);
    const piece = this.buffer.subarray(this.begin, Math.min(this.end, this.begin + most));
    this.begin += piece.length;
    this.position += piece.length;
    return piece;
  }

  /** The next n bytes; fewer where the file ends. No memory is taken for bytes that have not come. */
  read(n) {
    let bytes = new Uint8Array(Math.min(n, 65536));
    let length = 0;
    while (length < n && !this.atEnd()) {
      const piece = this.some(n - length);
      if (length + piece.length > bytes.length) {
        const longer = new Uint8Array(Math.min(n, 2 * bytes.length));
        longer.set(bytes.subarray(0, length));
        bytes = longer;
      }
      bytes.set(piece, length);
      length += piece.length;
    }
    return bytes.subarray(0, length);
  }
}

/** Input and output that another process set to non-blocking may have nothing to give or take yet. */
function patiently(action) {
  for (;;) {
    try {
      return action();
    } catch (error) {
      if (error.code === 'EOF') return 0;
      if (error.code !== 'EAGAIN') throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2);
    }
  }
}

class Decoder {
  constructor(source, release) {
    this.source = source;
    this.release = release;
    this.unit = 0; // offset of the header or record that is being read
  }

  /** Releases the content, or throws a Fault. */
  archive() {
    try {
      do this.member();
      while (!this.source.atEnd()); // [H7]
    } catch (error) {
      if (error instanceof RangeError) error = new Fault('limit', `memory: ${error.message}`);
      if (error instanceof Fault) error.offset ??= this.unit;
      throw error;
    }
  }

  truncated(what) {
    throw new Fault('truncated', `the file ends in ${what}`, this.source.position);
  }

  header() {
    this.unit = this.source.position;
    const bytes = this.source.read(32);
    check(beginsLike(bytes, MAGIC), 'malformed', '[H1] this is no .brv file');
    if (bytes.length < 32) this.truncated('a header');
    corruptUnless(crc32(bytes.subarray(0, 28)) === u32(bytes, 28), '[H3] CRC of the header');
    check(bytes[8] === 1, 'unsupported', `[H4] version ${bytes[8]}`);
    check(u64(bytes, 12) === 0n, 'unsupported', '[H5] a feature that this decoder does not know');
    check(u16(bytes, 10) === 0 && bytes[9] >= 12 && bytes[9] <= 24, 'malformed', '[H6] fields of the header');
    return bytes[9];
  }

  member() {
    const start = this.source.position;
    const c = this.header();
    // `contentCrcs` is the CRC of all content CRCs so far.
    const member = { start, c, chunks: [], layouts: [], content: 0, contentCrcs: 0, index: null };
    const ends = { chunks: this.source.position, layouts: this.source.position };
    for (;;) {
      const { tag, body } = this.record(member);
      check((member.index !== null) === (tag === FOOTER), 'malformed', '[R8] a record out of place');
      const list = tag === CHUNK ? 'chunks' : tag === LAYOUT ? 'layouts' : null;
      if (tag === CHUNK) {
        this.chunk(member, body);
      } else if (tag === LAYOUT) {
        this.checkBlock(body, c);
        check(body[8] === 8 && u32(body, 0) <= 2 ** 20, 'malformed', '[L1] width or length of a layout');
      } else if (tag === METADATA) {
        this.metadata(body);
      } else if (tag === PAD) {
        check(body.every((byte) => byte === 0), 'malformed', '[M2] a pad of other bytes than zeros');
      } else if (tag === INDEX) {
        check(beginsLike(body, indexBytes(member)), 'malformed', '[I1] an index of other records');
        member.index = this.unit;
      } else if (tag === FOOTER) {
        return this.footer(member, body);
      }
      if (list !== null) {
        const entry = { gap: this.unit - ends[list], size: this.source.position - this.unit };
        if (tag === CHUNK) entry.content = u32(body, 0);
        member[list].push(entry);
        ends[list] = this.source.position;
      }
    }
  }

  /** §3.2 The next record's tag and body; for an unknown record that may be skipped, no body. */
  record(member) {
    this.unit = this.source.position;
    const head = this.source.read(16);
    check(beginsLike(head, SYNC), 'malformed', '[R1] a record does not begin with the sync bytes');
    if (head.length < 16) this.truncated('a record header');
    corruptUnless(crc32(head.subarray(0, 12)) === u32(head, 12), '[R3] CRC of a record header');
    const tag = head[3];
    const length = u64(head, 4);
    const program = 2 ** (member.c + 1) + 65536;
    const demanded = tag === INDEX ? indexBytes(member).length : 0;
    const bounds = {
      [CHUNK]: [10, program],
      [INDEX]: [demanded, demanded],
      [FOOTER]: [36, 36],
      [LAYOUT]: [10, program],
      [METADATA]: [0, 2 ** 24],
      [PAD]: [0, 2 ** 24],
    }[tag];
    check(bounds !== undefined || tag >= 0x80, 'unsupported', `[R4] record ${tag}`);
    if (bounds === undefined) return this.skip(tag, length);
    check(length >= bounds[0] && length <= bounds[1], 'malformed', `[R5] a body of ${length} bytes`);
    const body = this.source.read(Number(length));
    if (body.length < length) this.truncated('a body');
    this.bodyCrc(crc32(body));
    return { tag, body };
  }

  skip(tag, length) {
    let crc = 0;
    while (length > 0n) {
      const piece = this.source.some(length > 65536n ? 65536 : Number(length));
      if (piece.length === 0) this.truncated('a body');
      crc = crc32(piece, crc);
      length -= BigInt(piece.length);
    }
    this.bodyCrc(crc);
    return { tag, body: null };
  }

  bodyCrc(crc) {
    const stored = this.source.read(4);
    if (stored.length < 4) this.truncated('the CRC of a body');
    corruptUnless(u32(stored, 0) === crc, '[R7] CRC of a body');
  }

  /** [K1] */
  checkBlock(body, c) {
    const D = u32(body, 0);
    const w = body[8];
    check(D >= 1 && D <= 2 ** c, 'malformed', `[K1] a content of ${D} bytes`);
    check(w >= 1 && w <= 64 && (8 * D) % w === 0, 'malformed', `[K1] a width of ${w} bits`);
    return { D, w };
  }

  chunk(member, body) {
    const { D, w } = this.checkBlock(body, member.c);
    const content = runProgram(body.subarray(9), this.unit + 16 + 9, w, D);
    corruptUnless(crc32(content) === u32(body, 4), '[K3] CRC of the content');
    member.content += D;
    member.contentCrcs = crc32(body.subarray(4, 8), member.contentCrcs);
    this.release(content);
  }

  /** [M1] */
  metadata(body) {
    const malformedUnless = (condition) => check(condition, 'malformed', '[M1] metadata');
    let at = 0;
    const text = () => {
      const size = readVarint(body, at);
      malformedUnless(size !== null && size.value <= body.length - size.next);
      at = size.next + Number(size.value);
      return Buffer.from(body.subarray(size.next, at));
    };
    for (let before = null; at < body.length; ) {
      const key = text();
      text();
      malformedUnless(before === null || Buffer.compare(before, key) < 0);
      malformedUnless(isUtf8(key));
      before = key;
    }
  }

  /** [F1] */
  footer(member, body) {
    const same =
      u64(body, 0) === BigInt(this.source.position - member.start) &&
      u64(body, 8) === BigInt(member.content) &&
      u64(body, 16) === BigInt(member.chunks.length) &&
      u64(body, 24) === BigInt(member.index - member.start) &&
      u32(body, 32) === member.contentCrcs;
    check(same, 'malformed', '[F1] a footer of another member');
  }
}

/** §3.6 The body that the index of these records must have. */
function indexBytes({ chunks, layouts }) {
  const bytes = [];
  for (const list of [chunks, layouts]) {
    bytes.push(...varintBytes(list.length));
    for (const entry of list) for (const value of Object.values(entry)) bytes.push(...varintBytes(value));
  }
  return bytes;
}

function isUtf8(bytes) {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    return true;
  } catch {
    return false;
  }
}

// -------------------------------------------------------------------------------------------------------------- command

/** Decodes a file. Gives null or the Fault that it met. */
function decode(descriptor, release) {
  try {
    new Decoder(new Source(descriptor), release).archive();
    return null;
  } catch (error) {
    if (error instanceof Fault) return error;
    throw error;
  }
}

function writeAll(descriptor, bytes) {
  for (let at = 0; at < bytes.length; ) {
    at += patiently(() => writeSync(descriptor, bytes, at, bytes.length - at));
  }
}

async function answerLines() {
  for await (const line of createInterface({ input: process.stdin })) {
    const hash = createHash('sha256');
    let length = 0;
    const descriptor = openSync(JSON.parse(line).file);
    const fault = decode(descriptor, (content) => {
      hash.update(content);
      length += content.length;
    });
    closeSync(descriptor);
    const verdict = { class: fault?.kind ?? null, offset: fault?.offset ?? null, message: fault?.message ?? null };
    writeAll(1, Buffer.from(`${JSON.stringify({ sha256: hash.digest('hex'), length, ...verdict })}\n`));
  }
}

if (process.argv.includes('--json-lines')) {
  await answerLines();
} else {
  const fault = decode(0, (content) => writeAll(1, content));
  if (fault !== null) {
    const verdict = { class: fault.kind, offset: fault.offset, message: fault.message };
    writeAll(2, Buffer.from(`${JSON.stringify(verdict)}\n`));
    process.exitCode = 1;
  }
}
