import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Pinned: another version generates other cases and other names. */
const TOOLS = ['schemathesis==4.32.5', 'openapi-python-client==0.29.1']

export type Finished = { readonly status: number | null; readonly output: string }

export type PythonTools = {
  readonly folder: string
  /** Runs one of the installed programs. Its output is stdout and stderr, as they came. */
  readonly run: (program: string, argv: readonly string[]) => Promise<Finished>
  readonly remove: () => Promise<void>
}

/** Installs the tools into a new virtual environment. Returns the reason if that is impossible. */
export async function installPythonTools(): Promise<PythonTools | { readonly missing: string }> {
  const folder = await mkdtemp(join(tmpdir(), 'attack-tools-'))
  const remove = () => rm(folder, { recursive: true, force: true })
  const bin = join(folder, 'venv/bin')
  const steps = [
    ['python3', '-m', 'venv', join(folder, 'venv')],
    [join(bin, 'pip'), 'install', '--quiet', '--disable-pip-version-check', ...TOOLS],
  ]
  for (const [program, ...argv] of steps) {
    const { status, output } = await runProgram(program as string, argv, folder)
    if (status === 0) continue
    await remove()
    return { missing: `"${[program, ...argv].join(' ')}" failed: ${output.slice(-500)}` }
  }
  return { folder, remove, run: (program, argv) => runProgram(join(bin, program), argv, folder) }
}

async function runProgram(program: string, argv: readonly string[], cwd: string): Promise<Finished> {
  const child = spawn(program, argv, { cwd, stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text
    })
  }
  try {
    const [status] = (await once(child, 'close')) as [number | null]
    return { status, output }
  } catch (error) {
    return { status: null, output: String(error) }
  }
}
