import type { PlannedChange } from '../plans/compare-plans.ts'
import type { Review, ReviewedComponent } from '../plans/review.ts'

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

/** Words of others (tags, names of branches) must not become marks of the page. */
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
    [
      `${counts.resources} resources, ${counts.protected} of them protected from deletion. A plan, not a preview: made without Azure, a login or a state.`,
    ],
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

function section(style: Style, title: string, lines: readonly string[]): string[] {
  if (lines.length === 0) return []
  return [style.heading(2, title), '', ...lines]
}

function changesOf(style: Style, changes: readonly PlannedChange[]): string[] {
  if (changes.length === 0) return [style.item('none')]
  return changes.map(({ action, type, name, protect, paths }) => {
    const what = `${action} ${type} ${name}${protect ? ' (protected)' : ''}`
    return style.item(paths.length > 0 ? `${what}: ${paths.join(', ')}` : what)
  })
}

function componentOf(style: Style, { title, resources }: ReviewedComponent): string[] {
  const lines = resources.flatMap(({ type, name, marks, facts }) => [
    style.item([type, name, ...marks.map((mark) => `(${mark})`)].join(' ')),
    ...facts.map(([path, value]) => style.fact(path, value)),
  ])
  return [style.heading(3, title), '', ...lines]
}
