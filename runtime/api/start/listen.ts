import type { FastifyInstance } from 'fastify'
import { errnoOf, SandboxError } from '../../kit/errors.ts'

type Address = { readonly host: string; readonly port: number }

/** Listens and returns the URL. Explains why an address cannot be used. */
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
    return `Port ${port} of ${host} is in use. Stop the program that uses it, or choose another port with AGENTWEAVER_PORT. The command line needs no port; browsers and other programs do.`
  }
  if (errno === 'EACCES')
    return `Port ${port} of ${host} needs more rights. Choose a port above 1023 with AGENTWEAVER_PORT.`
  if (errno === 'EADDRNOTAVAIL' || errno === 'ENOTFOUND') {
    return `This machine has no address ${host}. Choose one of its own addresses with AGENTWEAVER_HOST.`
  }
  return undefined
}
