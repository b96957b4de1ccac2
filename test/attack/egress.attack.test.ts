import { describe, expect, it } from 'vitest'
import { type Accepted, acceptedInputs } from '../egress/differential.ts'
import { passMessages } from '../egress/differential-messages.ts'
import { readTargets } from '../egress/differential-targets.ts'
import { type GoReading, hasGo, startGo } from './go-readings.ts'

const INPUTS = 1_000_000
/** Connections whose bytes pass through the proxy. They are slower than single inputs. */
const CONNECTIONS = 100_000
/** Set it to repeat a run. */
const SEED = Number(process.env['AGENTWEAVER_FUZZ_SEED'] ?? Date.now() % 2 ** 32)

/** Whether Go reads an input that the proxy accepts in another way. A refusal is no other reading. */
function differs({ reading }: Accepted, go: GoReading): boolean {
  if (go.refused) return /second request|two readings/.test(go.reason ?? '')
  // The headers of a websocket are written later.
  return go.reading !== reading.replace(' upgrade', '')
}

describe(`the egress proxy, with seed ${SEED}`, () => {
  it('accepts nothing that the parsers of Node, undici or Go read in another way', async () => {
    const counts = { authority: 0, absolute: 0, hello: 0, request: 0, first: 0, refusedByGo: 0 }
    const different: string[] = []
    const onReading = (accepted: Accepted, go: GoReading) => {
      if (go.refused) counts.refusedByGo += 1
      if (differs(accepted, go))
        different.push(JSON.stringify([accepted.input.toString('latin1'), accepted.reading, go]))
    }
    const go = hasGo() ? startGo(onReading) : undefined
    if (!go) process.stdout.write('Go is not installed: its parsers are not compared\n')

    for (const accepted of acceptedInputs(SEED, INPUTS)) {
      counts[accepted.kind] += 1
      // Go's parsers have no part that identifies callers.
      if (accepted.kind !== 'first') await go?.read(accepted)
    }
    const unread = await go?.end()

    process.stdout.write(`accepted of ${INPUTS}: ${JSON.stringify(counts)}\n`)
    expect(different.slice(0, 10)).toEqual([])
    expect(unread ?? 0).toBe(0)
  })

  it('reads no target of a tunnel or of a request in another way than the parsers of undici and of URLs', async () => {
    const read = await readTargets(SEED, CONNECTIONS)

    process.stdout.write(`targets of ${CONNECTIONS} connections: ${read}\n`)
    expect(read).toBeGreaterThan(CONNECTIONS / 10)
  })

  it('passes no request on that the server or undici reads with another end or body', async () => {
    const accepted = await passMessages(SEED, CONNECTIONS)

    process.stdout.write(`requests of ${CONNECTIONS} connections: ${accepted}\n`)
    expect(accepted).toBeGreaterThan(CONNECTIONS / 4)
  })
})
