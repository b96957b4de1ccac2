import type { PlannedChange } from './compare-plans.ts'
import type { Review, ReviewedComponent } from './review.ts'

/** Marks of a page; plain text has the same order and words as Markdown. */
interface Style {
  readonly heading: (level: 1 | 2 | 3, words: string) => string
  readonly table: (head: readonly string[], rows: readonly (readonly string[])[]) => string[]
  readonly item: (words: string) => string
  readonly fact: (path: string, value: string) => string
}

const MARKDOWN: Style = {
  heading: (level, words) => `${'#'.repeat(level)} ${inline(words)}`,
  table: (head, rows) =>
    [head, head.map(() => '---'), ...rows.map((row) => row.map(cell))].map((row) => `| ${row.join(' | ')} |`),
  item: (words) => `- ${inline(words)}`,
  fact: (path, value) => `  - \`${path}\`: ${inline(value)}`,
}

const PLAIN: Style = {
  heading: (level, words) =>
    level === 3 ? words : `${words}\n${(level === 1 ? '=' : '-').repeat(words.length)}`,
  table: (head, rows) => {
    const all = [head, ...rows]
    const widths = head.map((_, column) => Math.max(...all.map((row) => (row[column] ?? '').length)))
    return all.map((row) =>
      `  ${row.map((words, column) => words.padEnd(widths[column] ?? 0)).join('  ')}`.trimEnd(),
    )
  },
  item: (words) => `  ${words}`,
  fact: (path, value) => `      ${path}: ${value}`,
}

/** Text from outside (tags, names of branches) must not be rendered as Markdown. */
const inline = (words: string) =>
  words.replaceAll(/[\\`*_<>[\]|]/g, (mark) => `\\${mark}`).replaceAll(/\s+/g, ' ')
const cell = (words: string) => inline(words)

/** The page that a reviewer reads, as Markdown for a pull request or plain for a terminal. */
export function renderPage(
  review: Review,
  changes: readonly PlannedChange[],
  form: 'markdown' | 'plain',
): string {
  const style = form === 'markdown' ? MARKDOWN : PLAIN
  const { counts, stack } = review
  const blocks = [
    [style.heading(1, `Plan of ${stack}`)],
    [headline(counts)],
    section(style, 'Changes against the committed plan', changesOf(style, changes)),
    section(style, 'Who may do what where', [
      ...style.table(
        ['who', 'role', 'where', 'why'],
        review.access.map(({ who, role, where, why }) => [who, role, where, why]),
      ),
    ]),
    section(
      style,
      'Who logs in as whom',
      style.table(
        ['account of the cluster', 'identity'],
        review.logins.map(({ account, identity }) => [account, identity]),
      ),
    ),
    section(
      style,
      'Open to the network',
      review.doors.length === 0
        ? []
        : style.table(
            ['security group', 'from', 'TCP ports'],
            review.doors.map(({ group, from, ports }) => [group, from, ports]),
          ),
    ),
    section(
      style,
      'What is paid for',
      review.costs.length === 0
        ? []
        : style.table(
            ['what', 'how much'],
            review.costs.map(({ what, amount }) => [what, amount]),
          ),
    ),
    [style.heading(2, 'What is made')],
    ...review.components.map((component) => componentOf(style, component)),
  ]
  return `${blocks
    .filter((block) => block.length > 0)
    .map((block) => block.join('\n'))
    .join('\n\n')}\n`
}

function headline({ made, protected: kept, providers, components, pulumi }: Review['counts']): string {
  const others = [
    `${providers} ${providers === 1 ? 'provider' : 'providers'}`,
    `${components} ${components === 1 ? 'component' : 'components'}`,
  ]
  return [
    `${made} resources, ${kept} of them protected from deletion.`,
    `With ${others.join(', ')} and the stack itself Pulumi counts ${pulumi} on a new stack.`,
    'A plan, not a preview: made without Azure, a login or a state.',
  ].join(' ')
}

function section(style: Style, title: string, lines: readonly string[]): string[] {
  if (lines.length === 0) return []
  return [style.heading(2, title), '', ...lines]
}

function changesOf(style: Style, changes: readonly PlannedChange[]): string[] {
  if (changes.length === 0) return [style.item('none')]
  const rows = changes.map(({ action, type, name, protect, paths, replacing }) => [
    action,
    `${type} ${name}`,
    replaces(replacing, protect),
    paths.join(', '),
  ])
  return style.table(['change', 'resource', 'would replace', 'what differs'], rows)
}

function replaces(replacing: readonly string[], protect: boolean): string {
  if (replacing.length === 0) return 'no'
  return `yes, for ${replacing.join(', ')}${protect ? ': refused, it is protected' : ''}`
}

function componentOf(style: Style, { title, resources }: ReviewedComponent): string[] {
  const lines = resources.flatMap(({ type, name, marks, facts }) => [
    style.item([type, name, ...marks.map((mark) => `(${mark})`)].join(' ')),
    ...facts.map(([path, value]) => style.fact(path, value)),
  ])
  return [style.heading(3, title), '', ...lines]
}
