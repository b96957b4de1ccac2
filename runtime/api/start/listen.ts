import type { FastifyInstance } from 'fastify'
import { errnoOf, SandboxError } from '../../kit/errors.ts'

type Address = { readonly host: string; readonly port: number }

/** Listens and answers the URL; an address that cannot be had is explained in one sentence. */
export async function listen(app: FastifyInstance, address: Address): Promise<string> {
  try {
    return await app.listen({ host: address.host, port: address.port })
  } catch (error) {
    throw explained(error, address)
  }
}

function explained(cause: unknown, address: Address): unknown {
  const sentence = explain(errnoOf(cause), address)
  return sentence === undefined ? cause : new SandboxError('unavailable', sentence, { cause })
}

function explain(errno: string | undefined, { host, port }: Address): string | undefined {
  if (errno === 'EADDRINUSE') {
    return `Port ${port} of ${host} is in use: stop the program that listens there, or choose another port with AGENTWEAVER_PORT. The command line needs no port; browsers and other programs do.`
  }
  if (errno === 'EACCES')
    return `Port ${port} of ${host} needs more rights: choose one above 1023 with AGENTWEAVER_PORT.`
  if (errno === 'EADDRNOTAVAIL' || errno === 'ENOTFOUND') {
    return `This machine has no address ${host}: choose one of its own with AGENTWEAVER_HOST.`
  }
  return undefined
}
