import { resourceName } from '../model/engine-events.ts'
import type { Layer } from '../model/layers.ts'
import type { Environment, StackToRaise } from './find-stacks.ts'

/** How many resources a run changes, by Pulumi's word: `create`, `update`, `same`. */
export type Changes = Readonly<Record<string, number>>

/** The result of one preview or one up. */
export type Outcome =
  | { readonly changes: Changes; readonly losses: readonly string[] }
  | { readonly problems: readonly string[]; readonly isLocked: boolean }

/** One stack in the engine. */
export interface RaisedStack {
  preview(): Promise<Outcome>
  up(): Promise<Outcome>
}
export interface Engine {
  /** Opens a stack and creates it first if allowed; returns undefined if it does not exist. */
  open(stack: string, mayCreate: boolean): Promise<RaisedStack | undefined>
  /** Whether a stack has the outputs that the next layer reads. */
  hasBoundary(stack: string): Promise<boolean>
}

export interface LayerReport {
  readonly stack: string
  readonly layer?: Layer
  readonly status: 'raised' | 'previewed' | 'failed' | 'declined' | 'absent' | 'waiting'
  readonly changes?: Changes
  readonly problems?: readonly string[]
}
export interface UpReport {
  readonly environment: string
  readonly ok: boolean
  readonly layers: readonly LayerReport[]
  /** The next step, if the run did not complete. */
  readonly next?: string
}

export interface RaiseOptions {
  readonly environment: string
  readonly found: Environment
  readonly isPreview: boolean
  readonly say: (line: string) => void
  /** Whether a stack may be changed, once its preview was shown. */
  readonly confirm: (question: string) => Promise<boolean>
}

/**
 * Applies the stacks of an environment one after the other. Each stack is previewed first, so a change that a policy or
 * `protect` rejects fails before any resource changes. The first failure ends the run. A second run finds no changes in
 * the completed stacks and continues after them.
 */
export async function raise(engine: Engine, options: RaiseOptions): Promise<UpReport> {
  const { environment, found, isPreview, say } = options
  const layers: LayerReport[] = []
  for (const [index, one] of found.stacks.entries()) {
    const before = found.stacks[index - 1]
    say(`\n[${index + 1}/${found.stacks.length}] ${one.stack}`)
    const report = await raiseOne(engine, options, { one, before })
    layers.push({ ...one, ...report })
    if (report.status !== 'raised' && report.status !== 'previewed' && !isPreview) break
    if (report.status === 'failed') break
  }
  const failed = layers.find(({ status }) => status === 'failed' || status === 'declined')
  const next = failed && nextStep(environment, found, failed)
  return { environment, ok: failed === undefined, layers, ...(next && { next }) }
}

type Report = Omit<LayerReport, 'stack' | 'layer'>
interface Turn {
  readonly one: StackToRaise
  readonly before: StackToRaise | undefined
}

async function raiseOne(engine: Engine, options: RaiseOptions, { one, before }: Turn): Promise<Report> {
  const { say, isPreview } = options
  if (isPreview && before !== undefined && !(await engine.hasBoundary(before.stack))) {
    say(
      `  not previewed: it reads ${before.stack}, which is not up. npm run plan -- --stack ${one.stack} shows what it makes.`,
    )
    return { status: 'waiting' }
  }
  const stack = await engine.open(one.stack, !isPreview)
  if (stack === undefined) {
    say(`  is not there yet. npm run plan -- --stack ${one.stack} shows what it makes.`)
    return { status: 'absent' }
  }
  say('  preview')
  const seen = await stack.preview()
  if ('problems' in seen) return failed(seen, say)
  say(`  would ${summary(seen.changes)}`)
  for (const loss of seen.losses) say(`  ${loss}`)
  if (isPreview) return { status: 'previewed', changes: seen.changes }
  if (hasChanges(seen.changes) && !(await options.confirm(`Change ${one.stack}? [y/N] `)))
    return { status: 'declined', changes: seen.changes }
  const done = await stack.up()
  if ('problems' in done) return failed(done, say)
  say(`  ${one.stack} is up: ${summary(done.changes)}`)
  return { status: 'raised', changes: done.changes }
}

function failed({ problems }: Extract<Outcome, { problems: unknown }>, say: (line: string) => void): Report {
  for (const line of problems) say(`  ${line}`)
  return { status: 'failed', problems }
}

const hasChanges = (changes: Changes) =>
  Object.entries(changes).some(([op, count]) => op !== 'same' && op !== 'read' && count > 0)

/** `create 12, same 3`, in Pulumi's terms. The text also states if a run changes nothing. */
export function summary(changes: Changes): string {
  const counts = Object.entries(changes).filter(([, count]) => count > 0)
  return hasChanges(changes)
    ? counts.map(([op, count]) => `${op} ${count}`).join(', ')
    : `change nothing (${changes['same'] ?? 0} resources)`
}

/** Describes a preview step that removes a resource; undefined for any other step. */
export function lossOf(op: string, urn: string): string | undefined {
  if (op === 'delete') return `would delete ${resourceName(urn)}`
  return op === 'replace' ? `would replace ${resourceName(urn)}` : undefined
}

function nextStep(
  environment: string,
  { platform }: Environment,
  { stack, layer, status, problems }: LayerReport,
) {
  const again = `npm run up -- --stack ${environment}`
  if (status === 'declined') return `Nothing was changed in ${stack}. ${again} asks again.`
  if (problems?.some((line) => /currently locked by/.test(line)))
    return `If nobody works on ${stack}, its lock was left by a run that was killed: pulumi cancel --stack ${stack}, then ${again}.`
  const isInside = layer === 'add-ons' && platform.apiServer.access === 'private'
  const way = isInside
    ? `This layer reaches the API server of ${environment}, which is private: run it inside the network, or from a peered one (docs/private-cluster.md). `
    : ''
  return `${way}What was made stays. Remedy what is named above, then: ${again}. It goes on with ${stack}.`
}
