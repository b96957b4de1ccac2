import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { aFolder } from './run-cli.ts'

/** A fake program under the name of a real one, in a folder for the PATH. */
export interface StandIn {
  readonly env: Record<string, string>
  readonly state: string
  /** The arguments of each call so far. */
  calls(): string[][]
}

export async function aStandIn(name: string, fixture: string): Promise<StandIn> {
  const folder = await aFolder(`aw-${name}-`)
  const bin = join(folder, 'bin')
  mkdirSync(bin)
  const program = fileURLToPath(new URL(`../fixtures/${fixture}`, import.meta.url))
  const file = join(bin, name)
  writeFileSync(file, `#!/bin/sh\nexec '${process.execPath}' '${program}' "$@"\n`)
  chmodSync(file, 0o755)
  const log = join(folder, 'calls.jsonl')
  return {
    env: { PATH: [bin, dirname(process.execPath), '/usr/bin', '/bin'].join(':'), STAND_IN_STATE: folder },
    state: folder,
    calls: () =>
      existsSync(log)
        ? readFileSync(log, 'utf8')
            .split('\n')
            // The last line may be half written.
            .slice(0, -1)
            .map((line) => JSON.parse(line) as string[])
        : [],
  }
}
