import type { Command } from 'commander'
import { describe, expect, it } from 'vitest'
import { buildProgram } from '../../cli/program.ts'
import { createTerminal } from '../../cli/terminal/terminal.ts'

const { stdin, stdout, stderr } = process
const terminal = { ...createTerminal({ stdin, stdout, stderr, env: {}, cwd: '/' }), width: 80 }
const program = buildProgram({ terminal, exit: () => undefined }, '0')

const withChildren = (command: Command): Command[] => [command, ...command.commands.flatMap(withChildren)]
const all = withChildren(program).map((command): [string, Command] => [
  command.parent ? `${command.parent.name()} ${command.name()}` : command.name(),
  command,
])
const leaves = all.filter(([, command]) => command.commands.length === 0 && command.name() !== 'serve')

describe('the help', () => {
  it.each(all)('of "%s" fits into 80 columns', (_name, command) => {
    const lines = command.helpInformation().split('\n')

    expect(lines.length).toBeGreaterThan(3)
    expect(lines.filter((line) => line.length > 80)).toEqual([])
  })

  it.each(leaves)('of "%s" offers --json', (_name, command) => {
    expect(command.options.map(({ long }) => long)).toContain('--json')
  })
})
