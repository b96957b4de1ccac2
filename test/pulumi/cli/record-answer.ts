import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { hostname, userInfo } from 'node:os'
import { dirname, join } from 'node:path'
import { ANSWERS_FILE, type AnswerName, type PulumiAnswer, recordedSoFar } from '../../cli/pulumi-answers.ts'
import type { Workspace } from './workspace.ts'

/** Runs a Pulumi command as `agentweaver` does. With `--record`, stores the output for the tests of `npm test`. */
export async function recordAnswer(
  { space, cli }: { readonly space: Workspace; readonly cli: string },
  name: AnswerName,
  argv: readonly string[],
): Promise<PulumiAnswer> {
  const log = join(space.root, 'events.jsonl')
  rmSync(log, { force: true })
  const isChange = argv[0] === 'up' || argv[0] === 'destroy'
  const options = isChange ? ['--yes', '--suppress-outputs', '--suppress-progress', '--event-log', log] : []
  const { done } = await space.start([...argv, ...options], { PULUMI_DEBUG_COMMANDS: 'true' })
  const { status, stdout, stderr } = await done
  const answer = {
    command: `pulumi ${argv.join(' ')}`,
    status: status ?? -1,
    stdout: isChange ? '' : cut(name, withoutMachine(space, stdout)),
    stderr: withoutMachine(space, stderr),
    events: isChange ? withoutMachine(space, eventsOf(log)) : '',
  }
  if (process.env['RECORD'] === 'true') keep(cli, name, answer)
  return answer
}

function keep(cli: string, name: AnswerName, answer: PulumiAnswer): void {
  mkdirSync(dirname(ANSWERS_FILE), { recursive: true })
  const { answers = {} } = recordedSoFar() ?? {}
  const all = {
    cli,
    recorded: new Date().toISOString().slice(0, 10),
    answers: { ...answers, [name]: answer },
  }
  writeFileSync(ANSWERS_FILE, `${JSON.stringify(all, null, 2)}\n`)
}

/** Removes the folder, the user and the host name of the recording machine. */
const withoutMachine = ({ root }: Workspace, text: string): string =>
  text.replaceAll(root, '<folder>').replaceAll(`${userInfo().username}@${hostname()}`, 'somebody@a-machine')

/** Keeps violations and errors. Our code does not read the other entries, which are mostly debug messages. */
function eventsOf(log: string): string {
  const lines = readFileSync(log, { encoding: 'utf8', flag: 'a+' }).split('\n')
  return lines.filter((line) => /"(?:policyEvent|summaryEvent)"|"severity":"error"/.test(line)).join('\n')
}

/**
 * Removes a thousand lines of state that our code does not read. Each resource keeps its type, its tags and its `about`
 * output.
 */
function cut(name: AnswerName, stdout: string): string {
  if (name !== 'export') return stdout
  const { version, deployment } = JSON.parse(stdout) as {
    version: number
    deployment: { resources: readonly { type: string; inputs?: Fields; outputs?: Fields }[] }
  }
  const resources = deployment.resources.map(({ type, inputs, outputs }) => ({
    type,
    ...(inputs?.['tags'] !== undefined && { inputs: { tags: inputs['tags'] } }),
    ...(outputs?.['about'] !== undefined && { outputs: { about: outputs['about'] } }),
  }))
  return JSON.stringify({ version, deployment: { resources } })
}
type Fields = Readonly<Record<string, unknown>>
