import type { Socket } from 'node:net'
import { SandboxError } from '../kit/errors.ts'
import { expectSuccess, libc } from './libc.ts'

/** From asm-generic/socket.h, the same on x64 and arm64. */
const SOL_SOCKET = 1
const SO_PEERCRED = 17

/** `struct ucred`: process, user and group id, 32 bits each. */
const UCRED_BYTES = 12
const USER_OFFSET = 4

type GetSockOpt = (
  ...args: [fd: number, level: number, name: number, value: Buffer, bytes: Uint32Array]
) => number

/** Returns the user at the other end of a Unix socket, as reported by the kernel. */
export function peerUserOf(socket: Socket): number {
  const { _handle: handle } = socket as { _handle?: { fd?: number } | null }
  const fd = handle?.fd
  if (fd === undefined || fd < 0)
    throw new SandboxError('isolation_unavailable', 'the socket is not connected')
  const getsockopt: GetSockOpt = libc().func('int getsockopt(int, int, int, void *, void *)')
  const value = Buffer.alloc(UCRED_BYTES)
  expectSuccess(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, value, new Uint32Array([UCRED_BYTES])), 'getsockopt')
  return value.readInt32LE(USER_OFFSET)
}
