import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { type ModelReply, type ModelRequest, startModelServer, textOf } from '../fakes/model-server.ts'
import { API, CLI, COMPILE_CACHE } from '../helpers/built-programs.ts'
import { freePort } from '../helpers/free-port.ts'
import {
  followPage,
  openPageShell,
  pageCommands,
  startPageService,
  writeCommands,
} from '../helpers/page-shell.ts'
import { until } from '../helpers/until.ts'
import { aFolder, untilQuiet } from './run-cli.ts'

const PAGE = fileURLToPath(new URL('../../docs/getting-started.md', import.meta.url))

const call = (name: string, args: Record<string, unknown>): ModelReply => ({
  toolCalls: [{ name, arguments: args }],
})

/** A model that appends the prompt of each turn to a file, reads it and reports success. */
function respond({ messages }: ModelRequest): ModelReply {
  const turn = messages.filter(({ role }) => role === 'user').length
  const sinceTurn = messages.slice(messages.findLastIndex(({ role }) => role === 'user') + 1)
  const results = sinceTurn.filter(({ role }) => role === 'tool').map(textOf)
  if (results.length === 0)
    return call('run_command', { command: `echo turn ${turn} >> work.txt; git add . ; git commit -qm work` })
  if (results.length === 1) return call('report_outcome', { outcome: 'succeeded' })
  return { text: 'Done.' }
}

/** The home of a reader who has a project with git and npm. */
async function aHome(): Promise<string> {
  const home = await aFolder('aw-started-')
  const project = join(home, 'project')
  mkdirSync(project)
  const packageJson = { name: 'project', scripts: { test: 'node --test' } }
  writeFileSync(join(project, 'package.json'), JSON.stringify(packageJson))
  mkdirSync(join(project, 'test'))
  const git = (...argv: string[]) =>
    execFileSync('git', ['-C', project, ...argv], { env: environmentOf(home) })
  writeFileSync(join(home, '.gitconfig'), '[user]\n\tname = Ada\n\temail = ada@example.com\n')
  git('init', '-q')
  git('add', '.')
  git('commit', '-qm', 'first')
  return home
}
const environmentOf = (home: string) => ({ PATH: process.env['PATH'], HOME: home })

test('the commands of docs/getting-started.md work as they are written', async () => {
  const home = await aHome()
  const model = await startModelServer({ respond })
  onTestFinished(() => model.close())
  writeCommands(join(home, 'bin'), { npx: CLI, npm: API })
  const port = String(await freePort('127.0.0.1'))
  const env = {
    ...environmentOf(home),
    PATH: `${join(home, 'bin')}:${process.env['PATH']}`,
    ...COMPILE_CACHE,
    ...{ TMPDIR: home, AGENTWEAVER_PORT: port, AGENTWEAVER_LOCAL_WARM: '0', OPENAI_BASE_URL: model.url },
  }
  const all = pageCommands(readFileSync(PAGE, 'utf8'))
  const shell = openPageShell(home, env)

  const commands = all.filter(({ person }) => person === '')
  const service = all.find(({ person }) => person === 'service')
  const running = await startPageService(service?.text ?? '', home, env)
  onTestFinished(async () => {
    await shell.close()
    await running.stop()
    await untilQuiet(home)
  })
  const values = new Map<string, string>()
  const firstShow = commands.find(({ text }) => text === 'npx agentweaver show RUN')
  const outputs = await followPage(commands, {
    shellOf: () => shell,
    values,
    before: async (command) => {
      if (command !== firstShow) return
      const show = `npx agentweaver show ${values.get('RUN')}`
      await until('the run waits', async () => (await shell.run(show)).output.includes('approve'))
    },
  })

  const printed = (start: string) => [...outputs].find(([command]) => command.startsWith(start))?.[1]
  expect(commands.length).toBeGreaterThan(25)
  expect(printed('cat ~/somewhere')).toBe('hello\n')
  expect(printed('npx agentweaver diff')).toContain('+turn 1')
  expect(printed('git -C ~/project merge')).toContain('Fast-forward')
  expect(printed('npx agentweaver fork')).toMatch(/the conversation of[\s\S]*turn 2[\s\S]*succeeded/)
  expect(printed('npx agentweaver turn')).toMatch(/turn 1[\s\S]*turn 2[\s\S]*succeeded/)
  expect(printed('npx agentweaver trust')).toContain('The settings are now in force')
  expect(printed('npx agentweaver sandbox exec')).toContain('it answered 0')
  expect(readFileSync(join(home, 'reports', 'test', 'fixtures', 'user.json'), 'utf8')).toBe('{}\n')
})
