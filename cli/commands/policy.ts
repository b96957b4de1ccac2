import { Command } from 'commander'
import * as z from 'zod'
import { type PolicyScope, SandboxSettings } from '../../contracts/policy.ts'
import { canonicalJson } from '../../runtime/kit/canonical-json.ts'
import { present } from '../../runtime/kit/present.ts'
import { usageError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import { visible } from '../terminal/visible.ts'
import {
  type CliContext,
  newServiceCommand,
  openConnection,
  parseOptions,
  ServiceOptions,
} from './command.ts'
import { readSettings } from './policy-file.ts'
import { proposeCommand } from './policy-propose.ts'

const ScopeOptions = ServiceOptions.extend({
  repository: z.string().optional(),
  owner: z.string().optional(),
})
const SetOptions = ScopeOptions.extend({ replace: z.boolean().default(false) })

const REPOSITORY = ['--repository <url>', 'only runs that clone this repository'] as const
const OWNER = ['--owner <name>', 'only runs of this owner'] as const

const KEYS = SandboxSettings.keyof().options

function scopeOf({ repository, owner }: z.infer<typeof ScopeOptions>): PolicyScope {
  if (repository !== undefined && owner !== undefined)
    throw usageError('Name a repository or an owner, not both.')
  return present({ repository, owner })
}

const whichRuns = ({ repository, owner }: PolicyScope): string => {
  if (owner !== undefined) return `new runs of ${visible(owner)}`
  return repository === undefined ? 'all new runs' : `new runs on ${visible(repository)}`
}

function showCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'show',
    about: 'Show the settings that hold for new runs: those of all runs, of a repository or of an owner.',
    example:
      'agentweaver policy show\nagentweaver policy show --repository https://github.com/owner/name --json',
  })
    .option(...REPOSITORY)
    .option(...OWNER)
  command.action(async () => {
    const options = parseOptions(ScopeOptions, command)
    const { terminal } = context
    const scope = scopeOf(options)
    await using connection = await openConnection(context, options, { whenAbsent: 'start' })
    const settings = await connection.client.readPolicy(scope)
    if (options.json) terminal.json(settings)
    else terminal.print(Object.entries(settings).map(lineOf))
    context.exit(EXIT.ok)
  })
  return command
}

/** In the syntax of the settings file, which is YAML and so takes JSON. */
const lineOf = ([key, value]: [string, unknown]): string => visible(`${key}: ${JSON.stringify(value)}`)

function setCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'set',
    about:
      'Change the settings of new runs, from a file in the syntax of .agentweaver/settings.yml or from standard input ("-"). Keys that ' +
      'the file does not name stay as they are. A policy can only tighten the one above it: the ceiling of the operator, then the policy ' +
      'of all runs, then those of the owner and of the repository. Needs the role operator. Runs that have started keep their settings.',
    example:
      'echo "require_approval_for_all_shell: true" | agentweaver policy set - --repository https://github.com/owner/name\n' +
      'agentweaver policy set policy.yml --replace',
  })
    .argument('<file>', 'the settings, or "-" for standard input')
    .option(...REPOSITORY)
    .option(...OWNER)
    .option('--replace', 'reset the keys that the file does not name')
  command.action(async (file: string) => {
    const { replace, ...options } = parseOptions(SetOptions, command)
    const { terminal } = context
    const scope = scopeOf(options)
    const patch = await readSettings(context, file)
    await using connection = await openConnection(context, options, { whenAbsent: 'start' })
    const { client } = connection
    const before = await client.readPolicy(scope)
    const after = await (replace ? client.replacePolicy(patch, scope) : client.mergePolicy(patch, scope))
    if (options.json) terminal.json(after)
    else terminal.print(changes(before, after, whichRuns(scope)))
    context.exit(EXIT.ok)
  })
  return command
}

/** One line for each key that is different now. */
function changes(before: SandboxSettings, after: SandboxSettings, runs: string): string[] {
  const shown = (value: unknown) => (value === undefined ? 'not set' : visible(JSON.stringify(value)))
  const lines = KEYS.filter(
    (key) => canonicalJson(before[key] ?? null) !== canonicalJson(after[key] ?? null),
  ).map((key) => `${key}: ${shown(before[key])} → ${shown(after[key])}`)
  return lines.length === 0 ? [`Nothing changed for ${runs}.`] : [`Changed for ${runs}:`, ...lines]
}

export function policyCommand(context: CliContext): Command {
  return new Command('policy')
    .description('Show and change the settings of new runs, for all, for one repository or for one owner.')
    .addCommand(showCommand(context))
    .addCommand(setCommand(context))
    .addCommand(proposeCommand(context))
}
