import { describe, expect, it } from 'vitest'
import { processorMs } from '../helpers/processor-time.ts'
import { decideCommand, governanceWith, someFacts } from './fixture.ts'
import { DESTRUCTIVE_COMMANDS, HARMLESS_COMMANDS } from './shell-corpus.ts'

describe('destructive commands', () => {
  it.each(DESTRUCTIVE_COMMANDS)('asks about %j', (command) => {
    expect(decideCommand(command).verdict).toBe('ask')
  })

  it.each(HARMLESS_COMMANDS)('allows %j', (command) => {
    expect(decideCommand(command)).toMatchObject({ verdict: 'allow', matched: [] })
  })

  it('names the matching pattern and its reason', () => {
    const decision = decideCommand('cd x && sudo rm -fr y')

    expect(decision).toEqual({
      verdict: 'ask',
      rule: 'destructive',
      reasons: ['deletes a tree without asking'],
      matched: ['rm -r,-R,--recursive'],
    })
  })
})

describe('commands that are not visible in the text', () => {
  it.each([
    ['a syntax error', 'echo "unfinished'],
    ['a name from a variable', '$TOOL --help'],
    ['a script from a variable', 'bash -c "$SCRIPT"'],
    ['a name with a wildcard', '/bin/r? x'],
    ['eval', 'eval "$(ssh-agent)"'],
  ])('asks about %s', (_what, command) => {
    expect(decideCommand(command)).toMatchObject({ verdict: 'ask', rule: 'unclear-shell' })
  })
})

const decideFor = (shell: 'bash' | 'sh' | undefined, command: string) =>
  decideCommand(command, undefined, someFacts({ shell }))

describe.each(['bash', 'sh', undefined] as const)('commands for %s', (shell) => {
  it.each([
    'rm</dev/null -rf b',
    'rm 2>&1 -r >/dev/null -f b',
    '[[ x || rm -rf b ]]',
    "echo $'\\'; rm -rf b; #'",
    ': &>/dev/null rm -rf b',
    'f() { rm "$@"; }; f -rf b',
    'set -- -rf b; rm "$@"',
    "alias x='rm -rf b'\nx",
    'alias x=rm\nx -rf b',
    'echo -rf b | xargs rm',
    "printf '\\055rf b' | xargs rm",
    'git $(echo reset) --hard',
    "git -c alias.z='reset --hard' z",
    'git checkout -- f',
    'git restore :/',
  ])('need approval: %j', (command) => {
    expect(decideFor(shell, command).verdict).toBe('ask')
  })

  it.each([
    'npm publish --dry-run',
    'kubectl delete pod x --dry-run=client',
    'rm --help',
    'git clean -n',
    'fdisk -l',
    'ls | xargs -n1 echo rm -rf',
    '[ -f x ] && cat x >log 2>&1',
    'echo "${x:-a} ${y%.ts} $((1 + 1))"',
  ])('are allowed: %j', (command) => {
    expect(decideFor(shell, command).verdict).toBe('allow')
  })
})

describe('constructs that bash and /bin/sh read differently', () => {
  const commands = [
    '[[ -f x ]] && cat x',
    '(( 1 )) && ls',
    "echo $'a'",
    'echo $"a"',
    'ls &> log',
    'ls &>> log',
    'ls >& log',
    'ls {fd}>log',
    'ls |& cat',
    'cat <<< a',
    'cat <(ls)',
    'echo {a,b}',
    'echo {1..3}',
    'echo $[1 + 1]',
    'x=(a b)',
    'x[1]=a',
    'x+=a',
    'echo ${x[1]}',
    'echo ${x/a/b}',
    'echo ${x:0:1}',
    'echo ${x^^}',
    'echo ${!x}',
    'echo ${x@Q}',
    'for ((i = 0; i < 3; i++)); do ls; done',
    'select x in a; do ls; done',
    'case a in a) ls ;& b) ls ;; esac',
    'function f { ls; }',
    'coproc ls',
    'time ls',
    "alias ll='ls -l'",
    "echo 'a\\nb'",
  ]

  it.each(commands)('need approval if /bin/sh or an unknown shell runs commands: %s', (command) => {
    for (const shell of ['sh', undefined] as const)
      expect(decideFor(shell, command)).toMatchObject({
        verdict: 'ask',
        rule: 'unclear-shell',
        reasons: [expect.stringContaining('read it differently')],
      })
  })

  it.each(commands)('are allowed if bash runs commands: %s', (command) => {
    expect(decideFor('bash', command).verdict).toBe('allow')
  })

  it('need approval in a script that bash passes to sh', () => {
    expect(decideFor('bash', 'sh -c "[[ -f x ]] && cat x"').verdict).toBe('ask')
    expect(decideFor('bash', 'bash -c "[[ -f x ]] && cat x"').verdict).toBe('allow')
  })
})

describe('patterns from the settings', () => {
  it('match commands that no default pattern matches', () => {
    const governance = governanceWith({ destructive_command_patterns: ['make deploy'] })

    expect(decideCommand('make -j4 deploy', governance)).toMatchObject({
      verdict: 'ask',
      matched: ['make deploy'],
    })
    expect(decideCommand('make test', governance).verdict).toBe('allow')
    expect(decideCommand('make deploy').verdict).toBe('allow')
  })

  it('are rejected at start if they cannot match', () => {
    expect(() => governanceWith({ destructive_command_patterns: ['rm; x'] })).toThrow('must not contain ";"')
  })
})

describe('hostile text', () => {
  const LENGTH = 65_536
  const unreadable = ['a|', 'a=(', '((a', '[[ a && ', 'a<<b|', '$(', '`', '${', '$((a', '{ a;', '<<a ', 'a;']
  const readable = ['> a ', '"', '\\', ' ', 'env A=1 ', 'sudo ', 'x=$x$y;y=$y$x;', 'echo a|xargs b;']
  const fill = (piece: string) => piece.repeat(Math.ceil(LENGTH / piece.length)).slice(0, LENGTH)

  it.each(unreadable)('asks about 64 KiB of %j within seconds', (piece) => {
    const ms = processorMs(() => expect(decideCommand(fill(piece)).verdict).toBe('ask'))

    expect(ms).toBeLessThan(5000)
  })

  it.each(readable)('returns a decision about 64 KiB of %j within seconds', (piece) => {
    const ms = processorMs(() => expect(decideCommand(fill(piece)).verdict).not.toBe('deny'))

    expect(ms).toBeLessThan(5000)
  })

  it('compares a long word with long patterns within a second', () => {
    const patterns = Array.from({ length: 128 }, (_, at) => `x *${'a'.repeat(450)}b${at}`)
    const governance = governanceWith({ destructive_command_patterns: patterns })

    const ms = processorMs(() =>
      expect(decideCommand(`x ${'a'.repeat(60_000)}`, governance).verdict).toBe('allow'),
    )

    expect(ms).toBeLessThan(1000)
  })

  it('compares many words with the maximum number of alternatives within seconds', () => {
    const patterns = Array.from({ length: 10 }, () => `x ${'*b,'.repeat(99)}*b`)
    const governance = governanceWith({ destructive_command_patterns: patterns })

    const ms = processorMs(() => decideCommand(`x ${'a '.repeat(9000)}`, governance))

    expect(ms).toBeLessThan(5000)
  })

  it.each([
    ['functions that call each other', 'f(){ g "$@" a;g b; };g(){ f "$@" c;f d; };f ', 'f a;'],
    ['code that calls commands', 'node -e "', "exec('a');"],
    ['a here-document of make', 'make -f - <<E\n', 'a:;@-@-@-'],
    ['a format with many arguments', `printf '${'%s'.repeat(5000)}`, "' a"],
  ])('returns a decision about 64 KiB of %s within seconds', (_what, start, piece) => {
    const ms = processorMs(() =>
      expect(decideCommand((start + fill(piece)).slice(0, LENGTH)).verdict).not.toBe('deny'),
    )

    expect(ms).toBeLessThan(5000)
  })

  it('judges ordinary commands correctly afterwards', () => {
    decideCommand('a=('.repeat(20_000))

    expect(decideCommand('ls -la').verdict).toBe('allow')
    expect(decideCommand('rm -rf x').verdict).toBe('ask')
  })
})
