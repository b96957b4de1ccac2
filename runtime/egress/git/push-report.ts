import { PktReader, pktLine } from './pkt-line.ts'
import type { PushFault, PushList } from './push-list.ts'

/** The longest pkt-line of git. */
const LONGEST_LINE = 65_520
const DATA_BAND = 1
const MESSAGE_BAND = 2
const REFUSED = 'refused by Agentweaver'
/** A report has one line for each ref. */
const LONGEST_REPORT = 262_144
const OK = /^ok (\S+)\n?$/

/** Reads the server's report about a push, as it passes, and lists the refs that were updated. */
export class PushReport {
  readonly #outer = new PktReader(LONGEST_LINE)
  readonly #inner = new PktReader(LONGEST_LINE)
  readonly #hasBands: boolean
  readonly #updated = new Set<string>()
  #bytes = 0
  #isBroken = false

  constructor(capabilities: ReadonlySet<string>) {
    this.#hasBands = capabilities.has('side-band-64k')
  }

  /** Refs that the server reports as updated. */
  get updated(): ReadonlySet<string> {
    return this.#isBroken ? new Set() : this.#updated
  }

  push(chunk: Buffer): void {
    if (this.#isBroken) return
    if (!this.#hasBands) {
      this.#report(chunk)
      return
    }
    this.#outer.add(chunk)
    for (let line = this.#outer.next(); line.kind !== 'more'; line = this.#outer.next()) {
      this.#isBroken ||= line.kind === 'malformed'
      if (this.#isBroken) return
      if (line.kind === 'line' && line.payload[0] === DATA_BAND) this.#report(line.payload.subarray(1))
    }
  }

  #report(bytes: Buffer): void {
    this.#bytes += bytes.length
    this.#isBroken ||= this.#bytes > LONGEST_REPORT
    if (this.#isBroken) return
    this.#inner.add(bytes)
    for (let line = this.#inner.next(); line.kind !== 'more'; line = this.#inner.next()) {
      this.#isBroken ||= line.kind === 'malformed'
      if (this.#isBroken) return
      const ref = line.kind === 'line' ? OK.exec(line.payload.toString('latin1'))?.[1] : undefined
      if (ref !== undefined) this.#updated.add(ref)
    }
  }
}

/**
 * The response to a refused push: a report as a server would send it, because git shows the text of a report, but not of an
 * HTTP error. Undefined if the client did not ask for a report.
 */
export function refusedReport(
  { commands, capabilities }: Pick<PushList, 'commands' | 'capabilities'>,
  { reason, remedy }: PushFault,
): Buffer | undefined {
  if (!capabilities.has('report-status') && !capabilities.has('report-status-v2')) return undefined
  const flush = Buffer.from('0000')
  const lines = commands.map(({ ref }) => pktLine(`ng ${ref} ${REFUSED}\n`))
  const report = Buffer.concat([pktLine(`unpack ${commands.length > 0 ? 'ok' : REFUSED}\n`), ...lines, flush])
  if (!capabilities.has('side-band-64k')) return report
  const sentence = Buffer.from(`agentweaver: The push is refused: ${reason}. ${remedy}\n`)
  // A refused list can be longer than one line.
  const bands = chunksOf(report).map((bytes) => pktLine(Buffer.concat([Buffer.from([DATA_BAND]), bytes])))
  return Buffer.concat([pktLine(Buffer.concat([Buffer.from([MESSAGE_BAND]), sentence])), ...bands, flush])
}

function chunksOf(bytes: Buffer): Buffer[] {
  const size = LONGEST_LINE - 5
  return Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) =>
    bytes.subarray(at * size, (at + 1) * size),
  )
}
