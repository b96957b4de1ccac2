import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { CLI } from '../helpers/built-programs.ts'
import { freePort } from '../helpers/free-port.ts'
import {
  followPage,
  openPageShell,
  type PageCommand,
  type PageShell,
  pageCommands,
  pageSection,
  startPageService,
  writeCommands,
} from '../helpers/page-shell.ts'
import { processesWith } from '../helpers/processes-with.ts'
import { until } from '../helpers/until.ts'

const START_SERVICE = 'npx agentweaver serve'

const PAGE = join(import.meta.dirname, '..', '..', 'docs', 'runs.md')

/** The commands below a bold title in the section "Try it" of docs/runs.md, in order. */
const commandsBelow = (title: string) =>
  pageCommands(pageSection(PAGE, '## Try it').split(`**${title}**`)[1]?.split('\n**')[0] ?? '')

let home: string
let env: NodeJS.ProcessEnv
let shell: PageShell
/** Values for the words in capitals, from the output of earlier commands. */
const values = new Map<string, string>()
const services: { stop(): Promise<void> }[] = []

beforeAll(async () => {
  home = mkdtempSync(join(tmpdir(), 'aw-demonstrations-'))
  const bin = join(home, 'bin')
  writeCommands(bin, { npx: CLI })
  const port = String(await freePort('127.0.0.1'))
  env = { HOME: home, PATH: `${bin}:${process.env['PATH']}`, AGENTWEAVER_PORT: port, TMPDIR: home }
  shell = openPageShell(home, env)
})
afterAll(async () => {
  await shell.close()
  for (const service of services) await service.stop()
  rmSync(home, { recursive: true, force: true })
})

/** Runs commands in order and returns the output of each. `before` is called before each command. */
const follow = (commands: readonly PageCommand[], before: (command: string) => unknown = () => undefined) =>
  followPage(commands, {
    shellOf: () => shell,
    values,
    before: async ({ text }) => {
      await before(text)
      if (text !== START_SERVICE) return undefined
      const service = await startPageService(text, home, env)
      services.push(service)
      values.set('PROCESS', service.pid)
      return 'done'
    },
  })

it('lets a run wait without a sandbox, as the documentation shows', async () => {
  const commands = commandsBelow('A run waits without a sandbox.')

  const outputs = await follow(commands, async (command) => {
    if (!command.startsWith('npx agentweaver suspend')) return
    const show = `npx agentweaver show ${values.get('RUN')}`
    await until('the run waits', async () => /waits for +an approval/.test((await shell.run(show)).output))
  })

  expect(commands).toHaveLength(7)
  expect(outputs.get('npx agentweaver show RUN')).toMatch(/state +suspended[\s\S]*waits for +an approval/)
  expect(outputs.get('npx agentweaver logs -f RUN')).toMatch(
    /suspended[\s\S]*approved[\s\S]*removed[\s\S]*succeeded/,
  )
})

it('continues a run of a service that is killed, as the documentation shows', async () => {
  const commands = commandsBelow('A service is killed in the middle of a run.')
  const attempts = () => {
    try {
      return readFileSync(join(home, 'killed', 'attempts'), 'utf8')
    } catch {
      return ''
    }
  }

  const outputs = await follow(commands, async (command) => {
    if (!command.startsWith('kill')) return
    await until('the command runs', () => attempts() === 'attempt\n' && processesWith('attempts;').length > 0)
  })

  expect(commands).toHaveLength(6)
  expect(outputs.get('npx agentweaver logs -f RUN')).toMatch(/interrupted[\s\S]*succeeded/)
  expect(attempts()).toBe('attempt\nattempt\n')
})
