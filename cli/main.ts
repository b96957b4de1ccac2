import { readFileSync } from 'node:fs'
import process from 'node:process'
import * as z from 'zod'
import { issueMessage } from '../runtime/kit/issue-message.ts'
import { buildProgram, runProgram } from './program.ts'
import { createTerminal } from './terminal/terminal.ts'

z.config({ customError: issueMessage })

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as {
  version: string
}
const { stdin, stdout, stderr, env } = process
const terminal = createTerminal({ stdin, stdout, stderr, env, cwd: process.cwd() })
const context = {
  terminal,
  exit(status: number) {
    process.exitCode = status
  },
}

/** `agentweaver runs | head -1` closes the pipe early, which is not an error. */
stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error
  process.exit(process.exitCode ?? 0)
})

await runProgram(buildProgram(context, version), process.argv.slice(2), context)
terminal.progress[Symbol.dispose]()
