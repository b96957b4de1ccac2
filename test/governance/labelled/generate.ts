import { writeFileSync } from 'node:fs'
import { fileOf, formatLines, type Label, type LabelledLine, type Part } from './lines.ts'

/**
 * Building blocks of the generated lines. The two parts share none, so that rules tuned on one part do not fit
 * the other by accident.
 */
interface Pieces {
  readonly seed: number
  readonly dangerous: readonly string[]
  readonly harmless: readonly string[]
  /** Words before a simple command. */
  readonly prefixes: readonly string[]
  /** Scripts around another script. */
  readonly contexts: readonly ((script: string) => string)[]
  /** A script in a here-document. It must end its line, so nothing can follow it. */
  readonly document: (script: string) => string
  /** Ways to quote a word of letters, digits and dashes. */
  readonly spellings: readonly ((word: string) => string)[]
}

const quoted = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`
const doubled = (text: string) => `"${text.replace(/[\\"$`]/g, '\\$&')}"`
const hex = (word: string) =>
  `$'${[...word].map((c) => `\\x${c.charCodeAt(0).toString(16).padStart(2, '0')}`).join('')}'`
const octal = (word: string) => `$'${[...word].map((c) => `\\${c.charCodeAt(0).toString(8)}`).join('')}'`

const PIECES: Readonly<Record<Part, Pieces>> = {
  dev: {
    seed: 20_240_917,
    dangerous: [
      'rm -rf b',
      'rm -r b',
      'git reset --hard',
      'git clean -fdx',
      'git push --force',
      'npm publish',
      'kubectl delete ns x',
      'docker system prune -af',
      'terraform destroy',
      'find . -delete',
    ],
    harmless: ['ls -la', 'npm test', 'git status', 'rm f', 'git push', 'kubectl get pods', 'grep -rn rm .'],
    prefixes: ['env A=1 ', 'nohup ', 'nice -n 5 ', 'timeout 60 ', 'command ', 'time ', 'A=1 B=2 '],
    contexts: [
      (s) => `cd src && ${s}`,
      (s) => `bash -c ${quoted(s)}`,
      (s) => `if true; then ${s}; fi`,
      (s) => `echo "$(${s})"`,
      (s) => `( ${s} )`,
      (s) => `for i in 1 2; do ${s}; done`,
      (s) => `${s} 2>&1 | tail -5`,
      (s) => `f() { ${s}; }; f`,
      (s) => `set -e\n${s}\necho done`,
    ],
    document: (s) => `bash <<'EOF'\n${s}\nEOF`,
    spellings: [
      (w) => w,
      quoted,
      (w) => `${w.slice(0, 1)}''${w.slice(1)}`,
      (w) => `\\${w}`,
      hex,
      (w) => `"${w.slice(0, 1)}"${w.slice(1)}`,
    ],
  },
  'held-out': {
    seed: 77_003_311,
    dangerous: [
      'rm --recursive --force b',
      'rm b -fR',
      'git checkout -- .',
      'git branch -D old',
      'git push origin +main',
      'cargo publish',
      'helm uninstall api',
      'docker volume rm data',
      'pulumi destroy --yes',
      'aws s3 rb s3://x',
      'dropdb app',
    ],
    harmless: [
      'cat README.md',
      'cargo test',
      'git log -3',
      'rm -f f.tmp',
      'git push origin main',
      'docker ps',
      'grep -n "drop table" x.sql',
      'helm list',
    ],
    prefixes: ['stdbuf -oL ', 'setsid ', 'env -i PATH="$PATH" ', 'timeout -k 5 30s ', 'ionice -c 3 ', '! '],
    contexts: [
      (s) => `true && { ${s}; }`,
      (s) => `sh -c ${doubled(s)}`,
      (s) => `while true; do ${s}; break; done`,
      (s) => `x=$(${s})`,
      (s) => `case 1 in 1) ${s} ;; esac`,
      (s) => `cat <(${s})`,
      (s) => `[ -d . ] && ${s} > out.log`,
      (s) => `run() {\n  ${s}\n}\nrun`,
      (s) => `# step 1\n${s}`,
    ],
    document: (s) => `sh <<EOF\n${s.replace(/[\\$`]/g, '\\$&')}\nEOF`,
    spellings: [
      (w) => w,
      doubled,
      (w) => `${w.slice(0, -1)}\\${w.slice(-1)}`,
      octal,
      (w) => `${w.slice(0, 1)}""${w.slice(1)}`,
      (w) => `${w.slice(0, 1)}\\\n${w.slice(1)}`,
    ],
  },
}

const COUNTS: Readonly<Record<Label, number>> = { dangerous: 100, harmless: 60 }

/** Mulberry32: a small pseudorandom number generator with the same results everywhere. */
function randomOf(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 4_294_967_296) * below)
  }
}

/** Generates the lines of one file. The result is always the same. */
export function generateLines(label: Label, part: Part): LabelledLine[] {
  const pieces = PIECES[part]
  const random = randomOf(pieces.seed + (label === 'harmless' ? 1 : 0))
  const pick = <T>(from: readonly T[]): T => from[random(from.length)] as T
  const texts = new Set<string>()
  while (texts.size < COUNTS[label]) {
    // The first word is not quoted after a reserved word. A line that already contains quotes is used
    // unchanged.
    const base = pick(pieces[label])
    const words = base.includes('"') ? [base] : base.split(' ')
    const spelt = words.map((word) => (/^[\w-]+$/.test(word) ? pick(pieces.spellings)(word) : word)).join(' ')
    let text = random(2) === 0 ? spelt : pick(pieces.prefixes) + spelt
    for (let i = random(3); i > 0; i--) text = pick(pieces.contexts)(text)
    if (random(8) === 0) text = pieces.document(text)
    texts.add(text)
  }
  return [...texts].map((text) => ({ family: 'generated', text }))
}

if (import.meta.filename === process.argv[1]) {
  for (const label of ['dangerous', 'harmless'] as const)
    for (const part of ['dev', 'held-out'] as const)
      writeFileSync(fileOf(`${label}.${part}.generated`), formatLines(generateLines(label, part)))
}
