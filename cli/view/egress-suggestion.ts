import { createTwoFilesPatch } from 'diff'
import type { DeniedEgress, RunEgress } from '../../contracts/run-egress.ts'
import { type EgressPolicy, EgressPolicyError, loadEgressPolicy } from '../../policies/agent/egress/load.ts'
import { Method } from '../../policies/agent/egress/requests.ts'
import { placementOf } from '../../policies/agent/egress/targets.ts'

type Entry = EgressPolicy['classes']['agent'][number]

/** A refusal for which no entry can be suggested, and why. */
export interface NotSuggested {
  readonly denied: DeniedEgress
  readonly why: string
}

export interface Suggestion {
  /** A unified diff of the egress file. Empty if nothing can be suggested. */
  readonly diff: string
  readonly notSuggested: readonly NotSuggested[]
}

/** The narrowest changes of an egress file that would allow what the proxy refused to a run. */
export function suggestEntries(
  { runId, kind, denied }: RunEgress,
  file: { readonly name: string; readonly text: string },
): Suggestion {
  const notSuggested: NotSuggested[] = []
  let text = file.text
  for (const one of denied) {
    const changed = changeFor(text, one, { runId, kind })
    if (!changed.ok) notSuggested.push({ denied: one, why: changed.why })
    else text = changed.text
  }
  const diff = text === file.text ? '' : patchOf(file, text)
  return { diff, notSuggested }
}

function patchOf({ name, text }: { readonly name: string; readonly text: string }, changed: string): string {
  const patch = createTwoFilesPatch(name, name, text, changed, '', '', { context: 3 })
  return patch.slice(patch.indexOf('--- '))
}

type Change = { readonly ok: true; readonly text: string } | { readonly ok: false; readonly why: string }
type Run = Pick<RunEgress, 'runId' | 'kind'>

const refuse = (why: string): Change => ({ ok: false, why })

function changeFor(text: string, denied: DeniedEgress, run: Run): Change {
  const entries = loadEgressPolicy(text).classes[run.kind]
  const { host, port, rule } = denied
  const named = entries.filter((entry) => entry.host === host)
  // AgentHost's own entry for the host is not for commands.
  const own = named.filter(({ caller }) => caller === undefined)
  if (rule === 'not-listed' && denied.remedy.includes('agentweaver egress allow'))
    return refuse(
      `the list has it, and the settings of the run leave it out. ${denied.remedy.replace(/\.$/, '')}`,
    )
  if (own.some((entry) => isAllowedBy(entry, denied)))
    return refuse(
      `an entry of the file allows it. Restart the service if the entry is new. Otherwise: ${sentence(denied.reason)} ${denied.remedy}`,
    )
  if (rule !== 'not-listed' && rule !== 'port')
    return refuse(`a new entry would not allow it. ${denied.remedy}`)
  const [first] = own
  if (!first) return added(text, denied, run)
  // A second entry for the host would keep the limits of the first one apart.
  return rule === 'port' && named.length === 1 ? withPort(text, first, { port, kind: run.kind }) : edited(own)
}

const sentence = (text: string) => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`

const edited = (own: readonly Entry[]): Change =>
  refuse(
    `the file has ${own.length === 1 ? 'an entry' : `${own.length} entries`} for this host. Change it by hand`,
  )

const isAllowedBy = ({ ports, http }: Entry, { port, rule, method }: DeniedEgress): boolean =>
  ports.includes(port) &&
  rule !== 'method' &&
  (rule !== 'plain-http' || http === 'allow') &&
  (rule === 'not-listed' || rule === 'port' || method === undefined)

/** An entry for the one host, port and kind of request that was refused. */
function added(text: string, denied: DeniedEgress, { runId, kind }: Run): Change {
  const { host, port, method } = denied
  // The name comes from a command, and becomes a part of a file.
  if (!/^[a-z0-9]+(?:[.-]+[a-z0-9]+)*$/.test(host)) return refuse('it is not the plain name of a host')
  const isReading = method === undefined || method === 'GET' || method === 'HEAD'
  const methods = !isReading && Method.safeParse(method).success ? `\n      methods: [${method}]` : ''
  const http = method === undefined ? '' : '\n      http: allow'
  const entry = (splice: string) =>
    `    - host: ${host}\n      ports: [${port}]\n      mode: ${isReading ? 'read-only' : 'full'}${methods}${splice}${http}\n      why: asked for by ${runId}; say what for\n`
  const plain = insert(text, kind, entry(''))
  if (!plain.ok) return plain
  const made = loadEgressPolicy(plain.text).classes[kind].find(
    (one) => one.host === host && one.caller === undefined,
  )
  // A proxy that does not look into TLS leaves out an entry with limits.
  return made && placementOf(made, 'laptop').kind === 'left out'
    ? insert(text, kind, entry('\n      splice: allow'))
    : plain
}

/** Adds an entry at the end of a class. The file is a block of lines, as the documentation shows it. */
function insert(text: string, kind: Run['kind'], entry: string): Change {
  const lines = text.replace(/\n*$/, '\n').split('\n')
  const at = lines.findIndex((line) => new RegExp(`^  ${kind}:`).test(line))
  const head = lines[at]
  if (head === undefined) return refuse(`the file has no class ${kind} in the usual form`)
  if (/^ {2}\w+: *\[\] *(?:#.*)?$/.test(head)) {
    return checked([
      ...lines.slice(0, at),
      head.replace(/: *\[\]/, ':'),
      entry.trimEnd(),
      ...lines.slice(at + 1),
    ])
  }
  if (!/^ {2}\w+: *(?:#.*)?$/.test(head)) return refuse(`the class ${kind} is not written as a list of lines`)
  let end = at + 1
  for (let line = end; /^(?: {3,}| {2}-|\s*$)/.test(lines[line] ?? 'end'); line++)
    if ((lines[line] ?? '').trim() !== '') end = line + 1
  const indent = /^( *)- /.exec(lines[at + 1] ?? '')?.[1] ?? '    '
  const own = entry
    .trimEnd()
    .split('\n')
    .map((line) => indent + line.slice(4))
  return checked([...lines.slice(0, end), ...own, ...lines.slice(end)])
}

function withPort(text: string, { host }: Entry, wanted: { port: number; kind: Run['kind'] }): Change {
  const { port, kind } = wanted
  const lines = text.split('\n')
  const at = lines.findIndex((line) => new RegExp(`^  ${kind}:`).test(line))
  const own = lines.findIndex((line, index) => index > at && line.trim() === `- host: ${host}`)
  const ports = lines.findIndex((line, index) => index > own && /^\s*ports: \[[\d, ]+\]\s*$/.test(line))
  const isNext = ports > 0 && !lines.slice(own + 1, ports).some((line) => line.trim().startsWith('- '))
  if (at < 0 || own < 0 || !isNext) return refuse(`add ${port} to the ports of its entry`)
  return checked(lines.with(ports, (lines[ports] ?? '').replace(/\]\s*$/, `, ${port}]`)))
}

/** A host that has no single owner, for example, cannot be an entry. */
function checked(lines: readonly string[]): Change {
  const text = lines.join('\n')
  try {
    loadEgressPolicy(text)
    return { ok: true, text }
  } catch (error) {
    if (!(error instanceof EgressPolicyError)) throw error
    return refuse(error.message.replace(/^.*?line \d+: (?:classes\.\w+\.\d+\.)?/, ''))
  }
}
