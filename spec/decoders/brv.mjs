#!/usr/bin/env node
// A decoder of `.brv` archives, version 1, in plain JavaScript: written from FORMAT.md alone, so that it shares no
// mistake with the other decoders. Node 20 or later, no packages, and no Zstandard (rule Z1).
//     node brv.mjs < archive > content       exit status 0; or 1, with one line of JSON on standard error
//     node brv.mjs --json-lines              reads lines {"file": path}, answers each with one line
// Ids in brackets, such as [P2], are the rules of FORMAT.md.

import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import { closeSync, openSync, readSync, writeSync } from 'node:fs';
import { createInterface } from 'node:readline';

/** A refusal. An offset of null stands for that of the header or record that is being read. */
class Fault extends Error {}

function check(condition, kind, message, offset = null) {
  if (!condition) throw Object.assign(new Fault(message), { kind, offset });
}

const corruptUnless = (condition, message) => check(condition, 'corrupt', message);

// ------------------------------------------------------------------------------------------------ §1 bytes and bits

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
  for (; value > 127; value = Math.floor(value / 128)) bytes.push((value % 128) | 128);
  return [...bytes, value];
}

/** [V2] The field of `k <= 32` bits at bit `p`. Bits behind the last byte read as zeros. */
function field(bytes, p, k) {
  const at = p >>> 3;
  const shift = p & 7;
  let value = (bytes[at] | (bytes[at + 1] << 8) | (bytes[at + 2] << 16) | (bytes[at + 3] << 24)) >>> shift;
  if (shift + k > 32) value |= bytes[at + 4] << (32 - shift);
  return k === 32 ? value >>> 0 : value & ((1 << k) - 1);
}

/** The same, as BigInt, for `k <= 64`. */
function bigField(bytes, p, k) {
  if (k <= 32) return BigInt(field(bytes, p, k));
  return (BigInt(field(bytes, p + 32, k - 32)) << 32n) | BigInt(field(bytes, p, 32));
}

/** [V2] The bit string ends with the last byte, and bits between bit `p` and the end of its byte are zeros. */
function checkEnd(bytes, p) {
  corruptUnless(bytesFor(p) === bytes.length, 'a bit string does not end with its payload');
  corruptUnless(p % 8 === 0 || bytes[p >>> 3] >>> (p & 7) === 0, 'padding bits are not zero');
}

/** Fields one after another, as tables need them. */
class BitReader {
  constructor(bytes) { Object.assign(this, { bytes, p: 0 }); }

  field(k) {
    const at = this.p;
    this.p += k;
    corruptUnless(this.p <= 8 * this.bytes.length, 'a table runs past its payload');
    return bigField(this.bytes, at, k);
  }

  /** [V3] */
  expGolomb(k) {
    let zeros = 0;
    while (this.field(1) === 0n) corruptUnless(++zeros <= 63, 'more than 63 zero bits before an exp-Golomb code');
    const value = (((1n << BigInt(zeros)) + this.field(zeros) - 1n) << BigInt(k)) + this.field(k);
    corruptUnless(value < 1n << 64n, 'an exp-Golomb code stands for 2^64 or more');
    return value;
  }
}

// --------------------------------------------------------------------------------------------------------- §2 words

const bitsFor = (k) => 32 - Math.clz32(k - 1); // ⌈log2 k⌉
const bytesFor = (bits) => Math.ceil(bits / 8);

// A stream is a typed array. Words of up to 31 bits are of the type Number, which JavaScript's operators on bits can
// take without a thought of signs; longer ones are BigInt. Most functions of words serve both.
const typeOf = (w) => (w < 32 ? Number : BigInt);
const maskOf = (w) => typeOf(w)((1n << BigInt(w)) - 1n);

function newStream(w, n) {
  if (w > 31) return new BigUint64Array(n);
  return w > 16 ? new Uint32Array(n) : w > 8 ? new Uint16Array(n) : new Uint8Array(n);
}

/** The stream of type (w, n) with the words f(0), f(1), … */
function streamOf(w, n, f) {
  const words = newStream(w, n);
  for (let i = 0; i < n; i++) words[i] = f(i);
  return words;
}

/** `n` words of `w` bits, each a field of `v` bits. */
function unpack(bytes, v, w, n) {
  checkEnd(bytes, v * n);
  const read = typeOf(w) === Number ? field : bigField;
  return streamOf(w, n, (i) => read(bytes, i * v, v));
}

/** The bytes that a stream of words of `w` bits stands for. */
function pack(words, w) {
  if (w === 8) return words;
  const bytes = new Uint8Array((w * words.length) / 8);
  let p = 0;
  const put = (value, k) => {
    for (let room; k > 0; p += room, k -= room, value >>>= room) {
      room = Math.min(k, 8 - (p & 7));
      bytes[p >>> 3] |= value << (p & 7);
    }
  };
  for (const word of words) {
    put(w < 32 ? word : Number(word & 0xffffffffn), Math.min(w, 32));
    if (w > 32) put(Number(word >> 32n), w - 32);
  }
  return bytes;
}

// ------------------------------------------------------------------------------------------------ §5 entropy coders

/** §5.1 The table at the beginning of a payload: symbols, numbers, precision, and its length in bytes. */
function readTable(bytes, w, hasPrecision) {
  const bits = new BitReader(bytes);
  const s = Number(bits.field(12)) + 1;
  corruptUnless(s >= 2, 'a table of fewer than two symbols');
  const precision = hasPrecision ? Number(bits.field(4)) : 0;
  let word = bits.field(w);
  const [gapOrder, valueOrder, symbols] = [Number(bits.field(6)), Number(bits.field(4)), []];
  for (; ; word += bits.expGolomb(gapOrder) + 1n) {
    const run = bits.expGolomb(1) + 1n;
    corruptUnless(run <= s - symbols.length, 'a table of more symbols than it announces');
    corruptUnless(word + run <= 1n << BigInt(w), 'a symbol that does not fit the width');
    for (const end = word + run; word < end; word++) symbols.push(typeOf(w)(word));
    if (symbols.length === s) break;
  }
  const numbers = [];
  for (let number = 0n; numbers.length < s; numbers.push(Number(number))) {
    const zigzag = bits.expGolomb(valueOrder);
    number += zigzag & 1n ? -((zigzag + 1n) / 2n) : zigzag / 2n;
    corruptUnless(number >= 1n && number <= 65535n, 'a number of a table is below 1 or above 65535');
  }
  const size = bytesFor(bits.p);
  checkEnd(bytes.subarray(0, size), bits.p);
  return { symbols, numbers, precision, size };
}

/** §5.2 */
const MAX_CODE = 12;
function runHuffman({ w, n }, bytes) {
  const { symbols, numbers: lengths, size } = readTable(bytes, w, false);
  corruptUnless(Math.max(...lengths) <= MAX_CODE, 'a code longer than 12 bits');
  const sum = lengths.reduce((total, length) => total + 2 ** (MAX_CODE - length), 0);
  corruptUnless(sum === 2 ** MAX_CODE, 'lengths that are not those of a complete code');

  // Codes of one length are consecutive numbers, and stand for consecutive symbols of this order.
  const order = [...lengths.keys()].sort((i, j) => lengths[i] - lengths[j] || i - j);
  const counts = Array.from({ length: MAX_CODE + 1 }, (_, length) => lengths.filter((l) => l === length).length);
  const codes = bytes.subarray(size);
  let p = 0;
  const words = streamOf(w, n, () => {
    let [code, first, before] = [0, 0, 0]; // the first code of this length, and the number of shorter ones
    for (let length = 1; ; length++) {
      code = 2 * code + field(codes, p++, 1);
      if (code - first < counts[length]) break;
      before += counts[length];
      first = 2 * (first + counts[length]);
    }
    corruptUnless(p <= 8 * codes.length, 'a payload too short for its words');
    return symbols[order[before + code - first]];
  });
  checkEnd(codes, p);
  return words;
}

/** §5.3 "Frequencies": they sum to 2^k. */
function frequenciesOf(numbers, p, k) {
  const frequencies = numbers.map((v) => (v < 2 ** (p + 1) ? v : (2 ** p + (v % 2 ** p)) * 2 ** ((v >> p) - 1)));
  const greatest = Math.max(...frequencies);
  corruptUnless(greatest < 2 ** k, 'a frequency of 2^k or more');
  const j = frequencies.indexOf(greatest);
  frequencies[j] += 2 ** k - frequencies.reduce((sum, frequency) => sum + frequency, 0);
  corruptUnless(frequencies[j] >= 1, 'frequencies that do not sum to 2^k');
  return frequencies;
}

/** §5.3 "Slots": for each bucket its split, its other symbol, and the ranks at which its two parts begin. */
function aliasBuckets(frequencies, k) {
  const a = bitsFor(frequencies.length);
  const B = 2 ** (k - a);
  const rest = Array.from({ length: 2 ** a }, (_, i) => frequencies[i] ?? 0);
  const split = rest.map(() => B);
  const other = rest.map((_, i) => i);
  const [small, large] = [[], []];
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
  const take = (symbol, slots) => (seen[symbol] += slots) - slots;
  const ranks = split.map((own, i) => [take(i, own), take(other[i], B - own)]);
  return { bucketBits: k - a, split, other, ranks };
}

/** §5.3 */
function runRans({ w, n, lanes, k, tableSize, sizes }, bytes) {
  const { symbols, numbers, precision, size } = readTable(bytes.subarray(0, tableSize), w, true);
  corruptUnless(size === tableSize, 'a table shorter than its size says');
  const frequencies = frequenciesOf(numbers, precision, k);
  const { bucketBits, split, other, ranks } = aliasBuckets(frequencies, k);
  const words = newStream(w, n);
  const perBlock = Math.ceil(n / sizes.length);
  let at = tableSize;
  sizes.forEach((blockSize, block) => {
    const end = at + blockSize;
    const states = Array.from({ length: lanes }, (_, lane) => bytes.readUInt32LE(at + 4 * lane));
    corruptUnless(states.every((x) => x >= 2 ** 16), 'a state below 2^16');
    at += 4 * lanes;
    const first = block * perBlock;
    for (let i = first; i < Math.min(first + perBlock, n); i++) {
      const lane = (i - first) % lanes;
      const slot = states[lane] & (2 ** k - 1);
      const bucket = slot >>> bucketBits;
      const y = slot & (2 ** bucketBits - 1);
      const own = y < split[bucket];
      const symbol = own ? bucket : other[bucket];
      const rank = own ? ranks[bucket][0] + y : ranks[bucket][1] + y - split[bucket];
      words[i] = symbols[symbol];
      let x = frequencies[symbol] * (states[lane] >>> k) + rank;
      if (x < 2 ** 16) {
        corruptUnless(at < end, 'a renormalisation word is missing');
        x = x * 2 ** 16 + bytes.readUInt16LE(at);
        at += 2;
      }
      states[lane] = x;
    }
    corruptUnless(at === end, 'a renormalisation word is left over');
    corruptUnless(states.every((x) => x === 2 ** 16), 'a state other than 2^16 at the end of a block');
  });
  return words;
}

// ------------------------------------------------------------------------------------------------------ §4 programs

/** Operands of `rans`. */
function readRans(code, w, n) {
  const parameters = code.number(0, 63);
  const lanes = 2 ** (parameters & 7);
  code.demand(lanes <= 64, 'more than 64 lanes');
  const blocks = code.number(1, 65536);
  const perBlock = Math.ceil(n / blocks);
  code.demand(blocks === Math.ceil(n / perBlock), 'blocks without words');
  code.demand(lanes === 64 || perBlock <= 65536 * lanes, 'too many words of a block for its lanes');
  const tableSize = code.operand(1, Infinity);
  const sizes = Array.from({ length: blocks }, () => code.operand(4 * lanes, Infinity));
  code.demand(sizes.every((size) => size % 2n === 0n), 'an odd block size');
  const payload = sizes.reduce((sum, size) => sum + size, tableSize);
  return { lanes, k: 8 + (parameters >>> 3), tableSize: Number(tableSize), sizes: sizes.map(Number), payload };
}

/** Operands `count` and then count − 1 parts of `total`, each at least 1; the last part is what is left. */
function readParts(code, total, most) {
  const count = code.number(2, most);
  const parts = [];
  let left = total;
  for (; parts.length < count - 1; left -= parts.at(-1)) parts.push(code.number(1, left - 1));
  return [...parts, left];
}

/** A number that divides that of the node's words. */
function readDivisor(code, n, least) {
  const divisor = code.number(least, n);
  code.demand(n % divisor === 0, 'an operand does not divide the number of words');
  return divisor;
}

/** Functions of a word x of w bits, mod 2^w, and of c: the operand, if there is one, or what w alone decides. */
const XOR = { read: (code, w) => code.word(w), f: (x, c) => x ^ c };
const ADD = { read: (code, w) => code.word(w), f: (x, c) => x + c };
// zigzag: 2^w − (x + 1)/2 has the bits of ⌊x/2⌋, each inverted
const ZIGZAG = { read: (code, w) => typeOf(w)(1), f: (x, one) => (x >> one) ^ -(x & one) };
// gray: each bit becomes the exclusive or of all bits from it up
const GRAY = {
  read: (code, w) => [1, 2, 4, 8, 16, 32].filter((shift) => shift < w).map(typeOf(w)),
  f: (x, shifts) => shifts.reduce((y, shift) => y ^ (y >> shift), x),
};
const ROTATE = {
  read: (code, w) => [code.number(1, w - 1)].flatMap((r) => [r, w - r]).map(typeOf(w)),
  f: (x, [r, rest]) => (x << r) | (x >> rest),
};
// ordered: 2^w − 1 − x has all bits inverted
const ORDERED = { read: (code, w) => typeOf(w)(1) << typeOf(w)(w - 1), f: (x, top) => (x & top ? x ^ top : ~x) };

/**
 * §4.3 For each opcode `read`, which takes the operands and gives what the node is to know (types of children in
 * `types`, bytes of its payload in `payload`, its buffer charge in `charge`), and `run`, which makes its words.
 */
const OPERATORS = {
  0x01: { // raw
    read: (code, w, n) => ({ payload: bytesFor(w * n) }),
    run: ({ w, n }, payload) => unpack(payload, w, w, n),
  },
  0x02: { // packed
    read: (code, w, n) => {
      const v = code.number(1, w - 1);
      return { v, base: code.word(w), payload: bytesFor(v * n) };
    },
    run({ w, n, v, base }, payload) {
      const mask = maskOf(w);
      return unpack(payload, v, w, n).map((x) => (x + base) & mask);
    },
  },
  0x03: { read: (code) => ({ payload: code.operand(1, Infinity) }), run: runHuffman }, // huffman
  0x04: { read: readRans, run: runRans }, // rans
  0x05: { read: (code, w, n) => ({ payload: code.operand(1, Infinity), charge: bytesFor(w * n), lacks: 'zstd' }) },
  0x10: { read: (code, w) => ({ c: code.word(w) }), run: ({ w, n, c }) => newStream(w, n).fill(c) }, // const
  0x11: { // concat
    read: (code, w, n) => ({ types: readParts(code, n, 256).map((part) => [w, part]) }),
    run({ w, n }, children) {
      const words = newStream(w, n);
      children.reduce((at, child) => words.set(child, at) ?? at + child.length, 0);
      return words;
    },
  },
  0x12: { // repeat
    read(code, w, n) {
      const part = n / readDivisor(code, n, 2);
      return { types: [[w, part]], charge: 2 ** bitsFor(bytesFor(w)) * part };
    },
    run: ({ w, n }, [child]) => streamOf(w, n, (i) => child[i % child.length]),
  },
  0x13: { // map
    read(code, w, n) {
      const { f, read } = code.choice([XOR, ADD, ZIGZAG, GRAY, ROTATE, ORDERED]);
      return { f, c: read(code, w), types: [[w, n]] };
    },
    run({ w, f, c }, [child]) {
      const mask = maskOf(w);
      return child.map((x) => f(x, c) & mask);
    },
  },
  0x14: { // scan
    read(code, w, n) {
      const { f, read } = code.choice([XOR, ADD]);
      const init = read(code, w);
      code.demand(n >= 2, 'a scan of one word');
      return { f, init, types: [[w, n - 1]] };
    },
    run({ w, n, f, init }, [child]) {
      const mask = maskOf(w);
      let x = init;
      return streamOf(w, n, (i) => (i === 0 ? x : (x = f(x, child[i - 1]) & mask)));
    },
  },
  0x15: { // merge
    read: (code, w, n) => ({ types: readParts(code, w, w).map((part) => [part, n]) }),
    run({ w, n, types }, children) {
      const word = typeOf(w);
      const shifts = types.map(([part]) => word(part));
      return streamOf(w, n, (i) => children.reduce((x, child, j) => (x << shifts[j]) | word(child[i]), word(0)));
    },
  },
  0x16: { // stretch
    read: (code, w, n) => ({ types: [[w, n / readDivisor(code, n, 2)]] }),
    run({ w, n }, [child]) {
      const r = n / child.length;
      return streamOf(w, n, (i) => child[Math.floor(i / r)]);
    },
  },
  0x17: { // weave
    read(code, w, n) {
      const parts = readParts(code, n, 256);
      return { types: [[bitsFor(parts.length), n], ...parts.map((part) => [w, part])] };
    },
    run({ w, n }, [selector, ...children]) {
      const taken = children.map(() => 0);
      return streamOf(w, n, (i) => {
        const j = selector[i];
        corruptUnless(j < children.length, '[E1] a weave selects a child that is not there');
        corruptUnless(taken[j] < children[j].length, '[E1] a weave takes more words than a child has');
        return children[j][taken[j]++];
      });
    },
  },
  0x18: { // lookup
    read(code, w, n) {
      const r = readDivisor(code, n, 1);
      const m = code.number(2, n / r);
      return { r, m, types: [[bitsFor(m), n / r], [w, m * r]], charge: 2 ** bitsFor(bytesFor(w)) * m * r };
    },
    run({ w, n, r, m }, [index, table]) {
      corruptUnless(index.every((t) => t < m), '[E2] a lookup behind the end of its table');
      return streamOf(w, n, (i) => table[index[Math.floor(i / r)] * r + (i % r)]);
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

  /** [P2] An operand, as BigInt. */
  operand(least, most) {
    const varint = readVarint(this.bytes, this.at);
    this.demand(varint !== null, 'an operand that is cut short, or no varint in shortest form');
    this.demand(varint.value >= least && varint.value <= most, `an operand of ${varint.value}`);
    this.at = varint.next;
    return varint.value;
  }

  number(least, most) {
    return Number(this.operand(least, most));
  }

  word(w) {
    return typeOf(w)(this.operand(0, maskOf(w)));
  }

  /** [P1] A function, by its number. */
  choice(functions) {
    const value = this.number(0, Infinity);
    check(value < functions.length, 'unsupported', `[P1] function ${value}`, this.origin + this.opcodeAt);
    return functions[value];
  }

  node(w, n, depth) {
    this.opcodeAt = this.at;
    this.demand(this.at < this.bytes.length, 'the body ends before an opcode');
    const operator = OPERATORS[this.bytes[this.at++]];
    check(operator, 'unsupported', '[P1] an operator of no known number', this.origin + this.opcodeAt);
    const { types = [], payload = 0, charge = 0, lacks = null, ...operands } = operator.read(this, w, n);
    this.nodes += types.length;
    this.charges += charge;
    this.words += n;
    this.payloads += BigInt(payload);
    this.lacking ??= lacks;
    this.demand(this.nodes <= 1024, '[Q2] more than 1024 nodes');
    this.demand(types.length === 0 || depth <= 31, '[Q3] nodes deeper than 31');
    this.demand(this.charges <= 2 * this.D + 65536, '[Q6] too many buffers');
    this.demand(this.words <= 32 * this.D + 65536, '[Q7] too many words');
    const children = types.map(([width, count]) => this.node(width, count, depth + 1));
    return { run: operator.run, w, n, payload, types, children, ...operands };
  }

  program(w, n) {
    const root = this.node(w, n, 1);
    const rest = BigInt(this.bytes.length - this.at);
    check(this.payloads === rest, 'invalid', '[P3] payloads do not fill the body', this.origin + this.at);
    check(this.lacking === null, 'unsupported', `[Z1] this decoder has no ${this.lacking}`);
    return root;
  }

  /** The words of a node; payloads stand in the order in which this comes to the literals. */
  run(node) {
    if (node.children.length > 0) return node.run(node, node.children.map((child) => this.run(child)));
    const begin = this.at;
    this.at += Number(node.payload);
    return node.run(node, this.bytes.subarray(begin, this.at));
  }
}

// ----------------------------------------------------------------------------------------------------- §3 container

const MAGIC = [0x89, 0x42, 0x52, 0x56, 0x0d, 0x0a, 0x1a, 0x0a];
const SYNC = [0xab, 0x72, 0xc6];
const [CHUNK, INDEX, FOOTER, LAYOUT, METADATA, PAD] = [0x01, 0x02, 0x03, 0x81, 0x82, 0x83];

/** Repeats what fails only because a descriptor is set to non-blocking. */
function patiently(action) {
  for (;;) {
    try {
      return action();
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2); // sleeps for 2 ms
    }
  }
}

const readBuffer = Buffer.alloc(65536);

/** A file or pipe, read from its beginning to its end. */
class Source {
  constructor(descriptor) { Object.assign(this, { descriptor, position: 0, rest: Buffer.alloc(0) }); }

  atEnd() {
    if (this.rest.length > 0) return false;
    this.rest = readBuffer.subarray(0, patiently(() => readSync(this.descriptor, readBuffer)));
    return this.rest.length === 0;
  }

  /** The next n bytes; fewer where the file ends. No memory is taken for bytes that have not come. */
  read(n) {
    const pieces = [];
    while (n > 0 && !this.atEnd()) {
      const piece = Buffer.from(this.rest.subarray(0, n));
      pieces.push(piece);
      this.rest = this.rest.subarray(piece.length);
      this.position += piece.length;
      n -= piece.length;
    }
    return Buffer.concat(pieces);
  }
}

/** §3.6 The body that the index of these records must have. */
function indexBytes({ chunks, layouts }) {
  const listed = [chunks, layouts].map((list) => [list.length, ...list.flatMap((entry) => Object.values(entry))]);
  return Buffer.from(listed.flat().flatMap(varintBytes));
}

class Decoder {
  // `unit`: offset of the header or record that is being read
  constructor(source, release) { Object.assign(this, { source, release, unit: 0 }); }

  /** Releases the content. Gives the verdict: class and offset of null where there was no fault. */
  archive() {
    try {
      do this.member(this.header());
      while (!this.source.atEnd()); // [H7]
      return { class: null, offset: null };
    } catch (error) {
      if (error.message === 'Array buffer allocation failed') return { class: 'limit', offset: this.unit };
      if (!(error instanceof Fault)) throw error;
      return { class: error.kind, offset: error.offset ?? this.unit, message: error.message };
    }
  }

  /** The next bytes [H2] [R2] [R6]; what they have to begin with is checked first [H1] [R1]. */
  read(size, begin = []) {
    const bytes = this.source.read(size);
    const same = begin.every((byte, i) => i >= bytes.length || bytes[i] === byte);
    check(same, 'malformed', 'neither a header nor a record that belongs here');
    check(bytes.length === size, 'truncated', 'the file ends too early', this.source.position);
    return bytes;
  }

  /** The fixed bytes of a header or record. [H3] [R3] */
  begin(size, begin) {
    this.unit = this.source.position;
    const bytes = this.read(size, begin);
    corruptUnless(crc32(bytes.subarray(0, -4)) === bytes.readUInt32LE(size - 4), 'CRC of a header');
    return bytes;
  }

  /** §3.1 */
  header() {
    const bytes = this.begin(32, MAGIC);
    const c = bytes[9];
    check(bytes[8] === 1, 'unsupported', `[H4] version ${bytes[8]}`);
    check(bytes.readBigUInt64LE(12) === 0n, 'unsupported', '[H5] a feature that this decoder does not know');
    check(bytes.readUInt16LE(10) === 0 && c >= 12 && c <= 24, 'malformed', '[H6] fields of the header');
    // `ends`: the end of the last record of each list; `crcs`: the CRC of all content CRCs.
    const ends = { chunks: this.source.position, layouts: this.source.position };
    return { start: this.unit, c, chunks: [], layouts: [], ends, content: 0, crcs: 0, index: null };
  }

  member(member) {
    for (;;) {
      const { tag, body } = this.record(member);
      check((member.index !== null) === (tag === FOOTER), 'malformed', '[R8] a record out of place');
      if (tag === CHUNK) this.chunk(member, body);
      else if (tag === LAYOUT) this.block(member, 'layouts', body, {});
      else if (tag === METADATA) this.metadata(body);
      else if (tag === PAD) check(body.every((byte) => byte === 0), 'malformed', '[M2] a pad that is not zero');
      else if (tag === FOOTER) return this.footer(member, body);
      else if (tag === INDEX) this.index(member, body);
    }
  }

  /** §3.2 The next record's tag and body. */
  record(member) {
    const head = this.begin(16, SYNC);
    const tag = head[3];
    const length = Number(head.readBigUInt64LE(4)); // greater ones are rounded, and no file is as long
    const [program, other] = [[10, 2 ** (member.c + 1) + 65536], [0, 2 ** 24]];
    const bounds = { [CHUNK]: program, [FOOTER]: [36, 36], [LAYOUT]: program, [METADATA]: other, [PAD]: other };
    if (tag === INDEX) bounds[INDEX] = Array(2).fill(indexBytes(member).length);
    check(tag in bounds || tag >= 0x80, 'unsupported', `[R4] record ${tag}`);
    const [least, most] = bounds[tag] ?? [0, Infinity];
    check(length >= least && length <= most, 'malformed', `[R5] a body of ${length} bytes`);
    const body = this.read(length);
    corruptUnless(this.read(4).readUInt32LE() === crc32(body), '[R7] CRC of a body');
    return { tag, body };
  }

  /** [K1], or [L1] for a layout, and an entry for the index. */
  block(member, list, body, known) {
    const [D, w] = [body.readUInt32LE(0), body[8]];
    const ofChunk = list === 'chunks';
    const most = ofChunk ? 2 ** member.c : Math.min(2 ** 20, 2 ** member.c);
    check(D >= 1 && D <= most, 'malformed', `[K1] [L1] a content of ${D} bytes`);
    const fits = ofChunk ? w >= 1 && w <= 64 && (8 * D) % w === 0 : w === 8;
    check(fits, 'malformed', `[K1] [L1] a width of ${w} bits`);
    member[list].push({ gap: this.unit - member.ends[list], size: this.source.position - this.unit, ...known });
    member.ends[list] = this.source.position;
    return { D, w };
  }

  chunk(member, body) {
    const { D, w } = this.block(member, 'chunks', body, { content: body.readUInt32LE(0) });
    const code = new Code(body.subarray(9), this.unit + 16 + 9, D);
    const content = pack(code.run(code.program(w, (8 * D) / w)), w);
    corruptUnless(crc32(content) === body.readUInt32LE(4), '[K3] CRC of the content');
    member.content += D;
    member.crcs = crc32(body.subarray(4, 8), member.crcs);
    this.release(content);
  }

  metadata(body) {
    let at = 0;
    const text = () => {
      const size = readVarint(body, at);
      check(size !== null && size.value <= body.length - size.next, 'malformed', '[M1] a text that is cut short');
      at = size.next + Number(size.value);
      return body.subarray(size.next, at);
    };
    for (let before = null, key; at < body.length; before = key) {
      key = text();
      text();
      check((before === null || Buffer.compare(before, key) < 0) && isUtf8(key), 'malformed', '[M1] keys of metadata');
    }
  }

  index(member, body) {
    check(body.equals(indexBytes(member)), 'malformed', '[I1] an index of other records');
    member.index = this.unit;
  }

  footer(member, body) {
    const size = this.source.position - member.start;
    const fields = [size, member.content, member.chunks.length, member.index - member.start];
    const same = fields.every((value, i) => body.readBigUInt64LE(8 * i) === BigInt(value));
    check(same && body.readUInt32LE(32) === member.crcs, 'malformed', '[F1] a footer of another member');
  }
}

// ---------------------------------------------------------------------------------------------------------- command

function writeAll(descriptor, bytes) {
  for (let at = 0; at < bytes.length; ) at += patiently(() => writeSync(descriptor, bytes, at, bytes.length - at));
}

const writeLine = (descriptor, value) => writeAll(descriptor, Buffer.from(`${JSON.stringify(value)}\n`));

process.on('uncaughtException', (error) => process.exit(console.error(error) ?? 2)); // no verdict

if (process.argv.includes('--json-lines')) {
  for await (const line of createInterface({ input: process.stdin })) {
    const hash = createHash('sha256');
    let length = 0;
    const descriptor = openSync(JSON.parse(line).file);
    const release = (content) => {
      hash.update(content);
      length += content.length;
    };
    const verdict = new Decoder(new Source(descriptor), release).archive();
    closeSync(descriptor);
    writeLine(1, { sha256: hash.digest('hex'), length, ...verdict });
  }
} else {
  const verdict = new Decoder(new Source(0), (content) => writeAll(1, content)).archive();
  if (verdict.class !== null) {
    writeLine(2, verdict);
    process.exitCode = 1;
  }
}
