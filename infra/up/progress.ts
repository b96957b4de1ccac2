import { type EngineEvent, resourceName } from '../model/engine-events.ts'

/** Pulumi's operations as people read them, while they run and when they are done. */
const WORDS: Readonly<Record<string, readonly [running: string, done: string]>> = {
  create: ['creating', 'created'],
  update: ['updating', 'updated'],
  delete: ['deleting', 'deleted'],
  'create-replacement': ['creating', 'created, as a replacement'],
  'delete-replaced': ['deleting', 'deleted, for its replacement'],
}

/**
 * Reports the start and the end of each operation, because a cluster takes many minutes. Groups and providers are
 * omitted.
 */
export function createProgress(say: (line: string) => void): (event: EngineEvent) => void {
  let done = 0
  return ({ resourcePreEvent, resOutputsEvent, resOpFailedEvent }) => {
    const { metadata } = resourcePreEvent ?? resOutputsEvent ?? resOpFailedEvent ?? {}
    if (metadata === undefined || /^(?:pulumi|agentweaver):/.test(metadata.type)) return
    const words = WORDS[metadata.op]
    if (words === undefined) return
    const [running, ended] = words
    const name = resourceName(metadata.urn)
    if (resOpFailedEvent) return say(`    ${running} ${name} failed`)
    if (resourcePreEvent) return say(`    ${running} ${name}`)
    done += 1
    say(`    ${ended} ${name} (${done})`)
  }
}
