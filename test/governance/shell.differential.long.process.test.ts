import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { errnoOf } from '../../runtime/kit/errors.ts'
import { decideCommand, someFacts } from './fixture.ts'

const BASH = '/bin/bash'
const SH = '/bin/sh'
const isShBash = existsSync(SH) && /bash$/.test(realpathSync(SH))
const REAL = ['env', 'nohup', 'timeout', 'nice', 'xargs', 'cat', 'sh', 'bash', 'setsid', 'stdbuf', 'tee']

/** What makes a call of `rm` destructive. Bash reads the source of these too. */
const RECURSIVE = /(^|[ ])-(-r|[a-z]*[rR])/
const FORCE = /(^|[ ])-(-f|[a-zA-Z]*f)/

const single = (text: string) => `'${text.replaceAll("'", "'\\''")}'`
const double = (text: string) => `"${text.replace(/[\\"$`]/g, '\\$&')}"`
const backquoted = (text: string) => `\`${text.replace(/[\\`$]/g, '\\$&')}\``

/** Different spellings of one word. */
const spelling = (word: string) =>
  fc.constantFrom(
    word,
    single(word),
    double(word),
    `${word.slice(0, 1)}''${word.slice(1)}`,
    `${word.slice(0, 1)}""${word.slice(1)}`,
    `${word.slice(0, 1)}\\${word.slice(1)}`,
    `${word.slice(0, 1)}\\\n${word.slice(1)}`,
    `$'\\x${word.charCodeAt(0).toString(16)}${word.slice(1)}'`,
    `"${word.slice(0, 1)}"${word.slice(1)}`,
  )

const flags = fc.constantFrom(
  ['-rf'],
  ['-fr'],
  ['-r', '-f'],
  ['-vfR'],
  ['--recursive', '--force'],
  ['--recurs', '-f'],
  ['-f', '--r'],
)

const command = flags
  .chain((words) => fc.tuple(...['rm', ...words, 'x'].map(spelling)))
  .map((words) => words.join(' '))

/** Ways to run a command inside another text. */
const WRAPS: readonly ((script: string) => string)[] = [
  (s) => `sh -c ${single(s)}`,
  (s) => `bash -euc ${double(s)}`,
  (s) => `echo $(${s})`,
  (s) => `echo "a $(${s}) b"`,
  (s) => `echo ${backquoted(s)}`,
  (s) => `echo "a ${backquoted(s)}"`,
  (s) => `(${s})`,
  (s) => `{ ${s}\n}`,
  (s) => `if true; then ${s}\nfi`,
  (s) => `true && ${s}`,
  (s) => `false || ${s}`,
  (s) => `f() { ${s}\n}; f`,
  (s) => `for i in 1; do ${s}\ndone`,
  (s) => `case a in (a) ${s}\n;; esac`,
  (s) => `bash <<EOF\n${s.replace(/[\\$`]/g, '\\$&')}\nEOF\n`,
  (s) => `bash <<'EOF'\n${s}\nEOF\n`,
  (s) => `cat <<EOF\n$(${s})\nEOF\n`,
  (s) => `cat <<EOF\n${backquoted(s)}\nEOF\n`,
  (s) => `bash <<< ${single(s)}`,
  (s) => `echo ${single(s)} | sh`,
  (s) => `: \${nothing:-$(${s})}`,
  (s) => `: "\${nothing:-${backquoted(s)}}"`,
  (s) => `[[ -z $(${s}) ]]`,
  (s) => `a=$(${s})`,
  (s) => `eval ${single(s)}`,
  (s) => `trap ${single(s)} EXIT`,
  (s) => `# a comment\n${s} # another`,
  (s) => `cat <(${s})`,
  (s) => `echo a | tee >(${s}) && wait`,
  (s) => `X=${single(s)}; bash -c "$X"`,
  (s) => `function g { ${s}\n}\ng`,
  (s) => `echo $(( 1 + $(${s} ; echo 1) ))`,
  (s) => `while true; do ${s}\nbreak; done`,
]
/** Words before a simple command. */
const PREFIXES = [
  'env A=1 ',
  'env -i PATH="$PATH" ',
  'command ',
  'nohup ',
  'timeout 5 ',
  'timeout -k 1 5 ',
  'nice -n 5 ',
  'A=b C=d ',
  'time ',
  '! ',
  'setsid -w ',
  'stdbuf -oL ',
  'echo y | xargs ',
  'exec ',
]

const script = fc
  .tuple(
    command,
    fc.subarray(PREFIXES, { maxLength: 1 }),
    fc.array(fc.constantFrom(...WRAPS), { maxLength: 3 }),
  )
  .map(([inner, prefixes, wraps]) => wraps.reduce((text, wrap) => wrap(text), prefixes.join('') + inner))

describe.skipIf(!existsSync(BASH))('a real shell', () => {
  const folder = mkdtempSync(join(tmpdir(), 'governance-'))
  const bin = join(folder, 'bin')
  const log = join(folder, 'log')

  beforeAll(() => {
    mkdirSync(bin)
    // The only `rm` in the PATH records its arguments. If they are destructive, it ends the script: some never end.
    const isDestructive = `[[ " $*" =~ ${RECURSIVE.source} && " $*" =~ ${FORCE.source} ]]`
    const lines = [`#!${BASH}`, `printf '%s ' "$@" >> ${single(log)}`, `${isDestructive} && kill -KILL 0`, '']
    writeFileSync(join(bin, 'rm'), lines.join('\n'))
    chmodSync(join(bin, 'rm'), 0o755)
    for (const name of REAL) {
      const path = ['/usr/bin', '/bin'].map((dir) => join(dir, name)).find((file) => existsSync(file))
      if (path) symlinkSync(path, join(bin, name))
    }
  })
  afterAll(() => rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 }))

  /**
   * Runs a script and kills its remaining processes. If a here-document consumes the `break` of a loop, the loop never
   * ends. Each process is limited to one second of CPU time.
   */
  async function run(text: string, shell = BASH): Promise<void> {
    const limited = ['-c', 'ulimit -t 1; exec "$2" -c "$1"', 'limited', text, shell]
    const child = spawn(BASH, limited, {
      cwd: folder,
      env: { PATH: bin },
      stdio: 'ignore',
      detached: true,
      timeout: 60_000,
    })
    await once(child, 'exit')
    try {
      process.kill(-(child.pid ?? Number.NaN), 'SIGKILL')
    } catch (error) {
      if (errnoOf(error) !== 'ESRCH') throw error
    }
  }

  const stillRunning = (): string[] =>
    readdirSync('/proc').filter((pid) => {
      try {
        return readlinkSync(`/proc/${pid}/cwd`).startsWith(folder)
      } catch {
        return false
      }
    })

  async function removes(text: string, shell = BASH): Promise<boolean> {
    writeFileSync(log, '')
    await run(text, shell)
    const called = readFileSync(log, 'utf8')
    return RECURSIVE.test(called) && FORCE.test(called)
  }

  it('leaves no loop behind', async () => {
    await run('while true; do bash -c "echo"; done & echo "while true; do cat; done" | bash & cat log')

    await expect.poll(stillRunning).toEqual([])
  })

  it('runs nothing destructive that governance allows', async () => {
    let ran = 0
    await fc.assert(
      fc.asyncProperty(script, async (text) => {
        const isRun = await removes(text)
        if (isRun) ran++

        expect(isRun && decideCommand(text).verdict === 'allow', text).toBe(false)
      }),
      { numRuns: 150 },
    )
    expect(ran).toBeGreaterThan(90)
  })

  describe.skipIf(isShBash)('/bin/sh other than bash', () => {
    it.each(['[[ x || rm -rf x ]]', "echo $'\\'; rm -rf x; #'", ': &>/dev/null rm -rf x'])(
      'deletes files where bash would not, and governance asks: %s',
      async (text) => {
        expect(await removes(text, SH)).toBe(true)
        expect(await removes(text, BASH)).toBe(false)
        expect(decideCommand(text, undefined, someFacts({ shell: 'sh' })).verdict).toBe('ask')
      },
    )

    it('runs nothing destructive that governance allows', async () => {
      let ran = 0
      await fc.assert(
        fc.asyncProperty(script, async (text) => {
          const isRun = await removes(text, SH)
          if (isRun) ran++
          const { verdict } = decideCommand(text, undefined, someFacts({ shell: 'sh' }))

          expect(isRun && verdict === 'allow', text).toBe(false)
        }),
        { numRuns: 100 },
      )
      expect(ran).toBeGreaterThan(30)
    })
  })
})
