import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { CLI_CLIENT, OIDC_AUDIENCE, startOidcServer } from '../fakes/oidc-server.ts'
import { scriptedBrowser } from '../fakes/scripted-browser.ts'
import { CLI, COMPILE_CACHE } from '../helpers/built-programs.ts'
import {
  followPage,
  openPageShell,
  type PageShell,
  pageCommands,
  pageSection,
  writeCommands,
} from '../helpers/page-shell.ts'
import { until } from '../helpers/until.ts'
import { aCompany, TOKENS } from '../runs/own-credentials-rig.ts'
import { startOwnService } from './own-service.ts'
import { aFolder, untilQuiet } from './run-cli.ts'

const PAGE = fileURLToPath(new URL('../../docs/getting-started.md', import.meta.url))
const people = {
  ada: { tid: 't1', oid: 'ada', roles: ['sandbox-users'] },
  bob: { tid: 't1', oid: 'bob', roles: ['sandbox-users'] },
  ann: { tid: 't1', oid: 'ann', roles: ['sandbox-approvers'] },
  rita: { tid: 't1', oid: 'rita', roles: ['sandbox-auditors'] },
}

/** The machine of a person, with a terminal and a browser on which the person is known to the issuer. */
async function aMachine(name: string, url: string) {
  const home = await aFolder(`aw-team-${name}-`)
  writeCommands(join(home, 'bin'), { npx: CLI })
  writeFileSync(join(home, '.gitconfig'), `[user]\n\tname = ${name}\n\temail = ${name}@example.com\n`)
  const env = { PATH: `${join(home, 'bin')}:${process.env['PATH']}`, HOME: home, ...COMPILE_CACHE }
  const browser = scriptedBrowser(name)
  const shell = openPageShell(home, env)
  const run: PageShell['run'] = (command) => {
    let isEntered = false
    return shell.run(command.replaceAll('https://agentweaver.example.com', url), (output) => {
      const [, page, code] = /Open (\S+) on any device, and enter the code (\S+)/.exec(output) ?? []
      if (page === undefined || code === undefined || isEntered) return
      isEntered = true
      void browser.enterCode(page, code)
    })
  }
  return { home, run, close: () => shell.close() }
}

test('the day of a team in docs/getting-started.md works as it is written', async () => {
  const issuer = await startOidcServer({ people })
  const company = await aCompany({ ceiling: 'network_enabled: true\napprovals: { not_by_owner: true }\n' })
  const folder = await aFolder('aw-team-service-')
  const service = await startOwnService(folder, {
    ...company.settings,
    AGENTWEAVER_LOCAL_WARM: '0',
    AGENTWEAVER_OIDC_ISSUER: issuer.issuer,
    AGENTWEAVER_OIDC_AUDIENCE: OIDC_AUDIENCE,
    AGENTWEAVER_OIDC_OWNER_CLAIMS: 'tid,oid',
    AGENTWEAVER_OIDC_ROLES: 'sandbox-users=user,sandbox-approvers=approver,sandbox-auditors=auditor',
    AGENTWEAVER_OIDC_CLIENT_ID: CLI_CLIENT,
    AGENTWEAVER_OIDC_SCOPES: 'openid offline_access api',
    AGENTWEAVER_OIDC_RESOURCE: OIDC_AUDIENCE,
  })
  const machines = new Map<string, Awaited<ReturnType<typeof aMachine>>>()
  for (const name of Object.keys(people)) machines.set(name, await aMachine(name, service.url))
  onTestFinished(async () => {
    for (const machine of machines.values()) await machine.close()
    await service.stop()
    await untilQuiet(folder)
    await company.close()
    await issuer.close()
  })
  const machineOf = (name: string) => {
    const found = machines.get(name)
    if (!found) throw new Error(`nobody is called ${name}`)
    return found
  }
  const { home, run } = machineOf('ada')
  writeFileSync(join(home, 'token-file'), TOKENS.alice)
  execFileSync('git', ['clone', '-q', join(company.repositories, 'team/app.git'), join(home, 'app')])
  mkdirSync(join(home, 'app', 'build'), { recursive: true })

  const commands = pageCommands(pageSection(PAGE, '## 8. A team at one service'))
  const values = new Map<string, string>()
  const outputs = await followPage(commands, {
    shellOf: machineOf,
    values,
    before: async ({ text }) => {
      if (text !== 'npx agentweaver show RUN') return
      const show = `npx agentweaver show ${values.get('RUN')}`
      await until('the run waits', async () => (await run(show)).output.includes('agentweaver approve'))
    },
  })

  writeFileSync(
    '/tmp/team.txt',
    [...outputs].map(([command, output]) => `$ ${command}\n${output}`).join('\n'),
  )
  expect(outputs.get('! npx agentweaver approve RUN REQUEST')).toMatch(/another person/i)
  expect(outputs.get('! npx agentweaver show RUN')).toMatch(/There is no run/i)
  expect(outputs.get('npx agentweaver diff RUN')).toContain('+fixed')
  expect(readFileSync(join(home, 'app', 'README'), 'utf8')).toContain('fixed')
  expect(outputs.get('npx agentweaver audit verify')).toMatch(/intact/)
  const records = readFileSync(join(machineOf('rita').home, 'audit.jsonl'), 'utf8')
  expect(records).toContain(`#t1/ann`)
  expect(records).not.toContain(TOKENS.alice)
  expect([...outputs.values()].join('\n')).not.toContain(TOKENS.alice)
})
