/** One classic BPF instruction: `struct sock_filter` from linux/filter.h. */
export interface Instruction {
  readonly code: number
  readonly jumpTrue: number
  readonly jumpFalse: number
  readonly k: number
}

/** Offsets in `struct seccomp_data`. Arguments have 64 bits, low half first: x64 and arm64 are little endian. */
export const SECCOMP_DATA = { nr: 0, arch: 4, argument: (index: number) => 16 + 8 * index } as const

const make = (code: number, k: number, jumps: readonly [number, number] = [0, 0]): Instruction => ({
  code,
  k,
  jumpTrue: jumps[0],
  jumpFalse: jumps[1],
})

/** Jumps count the instructions to skip if the test succeeds and if it fails. */
export const load = (offset: number): Instruction => make(0x20, offset)
export const ifEqual = (k: number, hold: number, fail: number): Instruction => make(0x15, k, [hold, fail])
export const ifAtLeast = (k: number, hold: number, fail: number): Instruction => make(0x35, k, [hold, fail])
export const ifAnyBit = (k: number, hold: number, fail: number): Instruction => make(0x45, k, [hold, fail])
export const answer = (action: number): Instruction => make(0x06, action)

/** A jump offset has one byte. */
const MAX_JUMP = 255

/** Encodes a program as an array of `struct sock_filter`, the format of the kernel and of `bwrap --seccomp`. */
export function encode(program: readonly Instruction[]): Uint8Array {
  const bytes = new Uint8Array(program.length * 8)
  const view = new DataView(bytes.buffer)
  for (const [index, { code, jumpTrue, jumpFalse, k }] of program.entries()) {
    if (Math.max(jumpTrue, jumpFalse) > MAX_JUMP) throw new RangeError(`instruction ${index} jumps too far`)
    view.setUint16(index * 8, code, true)
    view.setUint8(index * 8 + 2, jumpTrue)
    view.setUint8(index * 8 + 3, jumpFalse)
    view.setUint32(index * 8 + 4, k, true)
  }
  return bytes
}
