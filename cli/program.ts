import { Command, CommanderError, Help } from 'commander'
import { toCliError } from './cli-error.ts'
import { applyCommand } from './commands/apply.ts'
import { auditCommand } from './commands/audit.ts'
import { cancelCommand } from './commands/cancel.ts'
import { capacityCommand } from './commands/capacity.ts'
import type { CliContext } from './commands/command.ts'
import { configCommand } from './commands/config.ts'
import { cpCommand } from './commands/cp.ts'
import { credentialCommand } from './commands/credential.ts'
import { dataCommand } from './commands/data.ts'
import { answerCommand, approveCommand, denyCommand } from './commands/decisions.ts'
import { demoCommand } from './commands/demo.ts'
import { diffCommand } from './commands/diff.ts'
import { doctorCommand } from './commands/doctor.ts'
import { egressCommand } from './commands/egress.ts'
import { execCommand } from './commands/exec.ts'
import { fetchCommand } from './commands/fetch.ts'
import { forkCommand } from './commands/fork.ts'
import { infraCommand } from './commands/infra.ts'
import { initCommand } from './commands/init.ts'
import { keyCommand } from './commands/key.ts'
import { loginCommand } from './commands/login.ts'
import { logoutCommand } from './commands/logout.ts'
import { logsCommand } from './commands/logs.ts'
import { modelsCommand } from './commands/models.ts'
import { moveStateCommand } from './commands/move-state.ts'
import { policyCommand } from './commands/policy.ts'
import { previewStackCommand } from './commands/preview-stack.ts'
import { pullCommand } from './commands/pull.ts'
import { pushCommand } from './commands/push.ts'
import { restrictCommand } from './commands/restrict.ts'
import { runCommand } from './commands/run.ts'
import { runsCommand } from './commands/runs.ts'
import { sandboxCommand } from './commands/sandbox.ts'
import { serveCommand } from './commands/serve.ts'
import { showCommand } from './commands/show.ts'
import { resumeCommand, suspendCommand } from './commands/suspension.ts'
import { topCommand } from './commands/top.ts'
import { trustCommand } from './commands/trust.ts'
import { turnCommand } from './commands/turn.ts'
import { verifyCommand } from './commands/verify.ts'
import { whoamiCommand } from './commands/whoami.ts'
import { EXIT, EXIT_STATUS_HELP } from './exit-status.ts'
import { visible } from './terminal/visible.ts'

export function buildProgram(context: CliContext, version: string): Command {
  const program = new Command('agentweaver')
    .description('Run AI agents in sandboxes, on Kubernetes or on this machine.')
    .version(version)
    .addHelpText('after', `\n${EXIT_STATUS_HELP}`)
  const commands = [
    initCommand,
    modelsCommand,
    runCommand,
    runsCommand,
    showCommand,
    logsCommand,
    diffCommand,
    fetchCommand,
    applyCommand,
    pullCommand,
    pushCommand,
    turnCommand,
    forkCommand,
    cancelCommand,
    suspendCommand,
    resumeCommand,
    restrictCommand,
    policyCommand,
    egressCommand,
    approveCommand,
    denyCommand,
    answerCommand,
    execCommand,
    cpCommand,
    sandboxCommand,
    trustCommand,
    serveCommand,
    topCommand,
    doctorCommand,
    configCommand,
    keyCommand,
    credentialCommand,
    loginCommand,
    logoutCommand,
    whoamiCommand,
    dataCommand,
    moveStateCommand,
    capacityCommand,
    infraCommand,
    previewStackCommand,
    verifyCommand,
    auditCommand,
    demoCommand,
  ]
  for (const create of commands) program.addCommand(create(context))
  settle(program, context)
  return program
}

const plainHelp = new Help()
/** Commander wraps no descriptions in a narrower column. */
const MIN_DESCRIPTION = 20

/** Without `--`, options of the program are read as options of `exec`. */
const EXEC_OPTIONS = 'If it is an option of your command, write "--" before the command: exec RUN -- ls -l\n'

/** Keeps Commander from ending the process, and sends its output to the terminal's streams. */
function settle(command: Command, context: CliContext): void {
  const { stdout, stderr } = context.terminal.io
  command
    .exitOverride()
    .showHelpAfterError(`${command.name() === 'exec' ? EXEC_OPTIONS : ''}Try "${pathOf(command)} --help".`)
    .configureHelp({
      // Almost every command has options. Without this column, the descriptions fit next to the names at 80 columns.
      subcommandTerm: (child) => plainHelp.subcommandTerm(child).replace(' [options]', ''),
      minWidthToWrap: MIN_DESCRIPTION,
    })
    .configureOutput({
      writeOut: (text) => stdout.write(text),
      writeErr: (text) => stderr.write(text),
      getOutHelpWidth: () => context.terminal.width,
      getErrHelpWidth: () => context.terminal.width,
    })
  for (const child of command.commands) settle(child, context)
}

const pathOf = (command: Command): string =>
  command.parent ? `${pathOf(command.parent)} ${command.name()}` : command.name()

/** Runs the command line. Prints an error on stderr and sets the exit status. */
export async function runProgram(
  program: Command,
  argv: readonly string[],
  context: CliContext,
): Promise<void> {
  const { terminal } = context
  try {
    await program.parseAsync(argv, { from: 'user' })
  } catch (error) {
    terminal.progress.clear()
    if (error instanceof CommanderError) return context.exit(error.exitCode === 0 ? EXIT.ok : EXIT.usage)
    const known = toCliError(error)
    if (!known) throw error
    terminal.note(`${terminal.notePaint.red('error:')} ${visible(known.message)}`)
    if (known.hint) terminal.note(visible(known.hint))
    context.exit(known.status)
  }
}
