import { createInterface } from 'node:readline'
import { EgressState } from '../../contracts/egress.ts'
import { messageOf } from '../kit/errors.ts'
import { EgressProxy } from './proxy.ts'

/**
 * The process of the egress proxy on a laptop. The service that started it writes one state per line to standard input
 * and reads one report per line from standard output. The end of standard input ends the process, so the proxy does not
 * outlive the service.
 */
const proxy = new EgressProxy({
  report: (report) => process.stdout.write(`${JSON.stringify(report)}\n`),
})

/** A proxy that may have missed a state must not keep enforcing an older one. */
function fail(error: unknown): never {
  process.stderr.write(`${messageOf(error)}\n`)
  proxy.close()
  return process.exit(1)
}

/** Without the parser's message, which quotes its input: a state contains private keys. */
function parseState(line: string): EgressState {
  try {
    return EgressState.parse(JSON.parse(line))
  } catch {
    return fail(new Error('the service sent a state that this egress proxy cannot read'))
  }
}

process.stdout.on('error', fail)
// Ctrl-C reaches every process of the terminal, but only the service decides when the proxy ends.
process.on('SIGINT', () => undefined)

let applying = Promise.resolve()
const lines = createInterface({ input: process.stdin })
lines.on('line', (line) => {
  applying = applying.then(() => proxy.apply(parseState(line))).catch(fail)
})
lines.on('close', () => {
  proxy.close()
  process.exit(0)
})
