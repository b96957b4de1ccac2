import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type OidcServer, startOidcServer } from '../fakes/oidc-server.ts'
import { scriptedBrowser } from '../fakes/scripted-browser.ts'
import {
  followPage,
  openPageShell,
  type PageShell,
  pageCommands,
  pageSection,
  writeCommands,
} from '../helpers/page-shell.ts'
import { until } from '../helpers/until.ts'

const PAGE = fileURLToPath(new URL('../../docs/getting-started.md', import.meta.url))
const PEOPLE = {
  ada: { tid: 't1', oid: 'ada', roles: ['sandbox-users'] },
  bob: { tid: 't1', oid: 'bob', roles: ['sandbox-users'] },
  ann: { tid: 't1', oid: 'ann', roles: ['sandbox-approvers'] },
  rita: { tid: 't1', oid: 'rita', roles: ['sandbox-auditors'] },
}
/** Which role each value of the claim `roles` gives. */
export const TEAM_ROLES = {
  'sandbox-users': 'user',
  'sandbox-approvers': 'approver',
  'sandbox-auditors': 'auditor',
} as const

/** The issuer of the team of docs/getting-started.md. */
export const startTeamIssuer = (
  place?: Parameters<typeof startOidcServer>[0]['place'],
): Promise<OidcServer> => startOidcServer({ people: PEOPLE, ...(place && { place }) })

interface TeamPlace {
  /** The service. */
  readonly url: string
  /** Path of the repository, from which Ada has a clone. */
  readonly repository: string
  /** The tokens of Ada and Bob for it. */
  readonly tokens: { readonly ada: string; readonly bob: string }
  /** The program of the command line. */
  readonly cli: string
  readonly env?: Readonly<Record<string, string>>
  /** A file in the format of `/etc/hosts` for the machines of the people. */
  readonly hosts?: string
  /** How a browser gets a page. */
  readonly fetch?: typeof fetch
}

/** The machine of a person, with a terminal, and a browser in which the issuer knows the person. */
function aMachine(name: string, { url, cli, env, hosts, fetch }: TeamPlace) {
  const home = mkdtempSync(join(tmpdir(), `aw-team-${name}-`))
  writeCommands(join(home, 'bin'), { npx: cli })
  writeFileSync(join(home, '.gitconfig'), `[user]\n\tname = ${name}\n\temail = ${name}@example.com\n`)
  const path = `${join(home, 'bin')}:${process.env['PATH']}`
  const browser = scriptedBrowser(name, fetch)
  const shell = openPageShell(home, { PATH: path, HOME: home, ...env }, hosts)
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

/** Follows the section "A team at one service" of docs/getting-started.md. Returns what each command printed, and the files. */
export async function followTeam(place: TeamPlace) {
  const machines = new Map(Object.keys(PEOPLE).map((name) => [name, aMachine(name, place)]))
  const machineOf = (name: string) => {
    const found = machines.get(name)
    if (!found) throw new Error(`nobody is called ${name}`)
    return found
  }
  try {
    const { home, run } = machineOf('ada')
    for (const [name, token] of Object.entries(place.tokens))
      writeFileSync(join(machineOf(name).home, 'token-file'), token)
    execFileSync('git', ['clone', '-q', place.repository, join(home, 'app')])
    const values = new Map<string, string>()
    const outputs = await followPage(pageCommands(pageSection(PAGE, '## 8. A team at one service')), {
      shellOf: machineOf,
      values,
      before: async ({ text }) => {
        if (text !== 'npx agentweaver show RUN') return
        const show = `npx agentweaver show ${values.get('RUN')}`
        const isAsked = async () => (await run(show)).output.includes('agentweaver approve')
        await until('the run waits for an approval', isAsked, 300_000)
      },
    })
    return {
      outputs,
      readme: readFileSync(join(home, 'app', 'README'), 'utf8'),
      records: readFileSync(join(machineOf('rita').home, 'audit.jsonl'), 'utf8'),
    }
  } finally {
    for (const { home, close } of machines.values()) {
      await close()
      rmSync(home, { recursive: true, force: true })
    }
  }
}
