import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { expect, test } from 'vitest'
import type { Plan } from '../../contracts/planned-resource.ts'
import { reviewPlan } from '../../tools/offline-plan/review.ts'
import { readAnswers, recordedSoFar } from '../cli/pulumi-answers.ts'
import { RECORDINGS, readRecording } from '../policies/stack/recording.ts'
import { PARTS, PROOF_PAGE, proofPage } from '../pulumi/proof-page.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const page = readFileSync(join(ROOT, PROOF_PAGE), 'utf8')
const rows = [...page.matchAll(/^\| `([^`]+)` \| (\d+) \| (.+) \|$/gm)].map(
  ([, command, status, outcome]) => ({
    command: command ?? '',
    status: Number(status),
    outcome: outcome ?? '',
  }),
)

test('the page has the form that the lane writes, with all parts', () => {
  const [, cli = '', date = ''] = /Pulumi CLI \| (\S+) \|\n\| date \| (\S+) \|/.exec(page) ?? []
  const sections = page.split(/^## /m).slice(1)
  const proofs = sections.flatMap((section) =>
    rows
      .filter(({ command, outcome }) => section.includes(`\`${command}\``) && section.includes(outcome))
      .map((row) => ({ ...row, part: section.split('\n')[0] ?? '' })),
  )

  expect(proofPage({ cli, date, proofs })).toBe(page)
  for (const part of PARTS) expect(page).toContain(`## ${part}\n`)
})

test.each([
  [/^pulumi stack init dev/, 0, /./],
  [/^pulumi preview .*--policy-pack policies\/stack$/, 0, /^\d+ to create$/],
  [/^pulumi up .*--policy-pack policies\/stack$/, 0, /^\d+ created$/],
  [/^pulumi up .*--policy-pack policies\/stack$/, 0, /^\d+ unchanged$/],
  [/^pulumi up .*--policy-pack policies\/stack$/, 0, /^\d+ updated, \d+ unchanged$/],
  [/^pulumi refresh --stack dev$/, 0, /updated/],
  [/^pulumi preview --stack dev$/, 1, /refuses to replace/],
  [/^pulumi destroy --stack dev$/, 1, /nothing deleted/],
  [/^pulumi destroy --stack dev --skip-preview$/, 1, /the state says what is left/],
  [/^pulumi destroy --stack dev$/, 0, /everything deleted/],
  [/^npm run up -- --stack prod --to network --yes$/, 0, /create \d+$/],
  [/^npm run up -- --stack prod --yes$/, 1, /stop with the next step/],
  [/^npm run up -- --stack prod --yes$/, 0, /^inside the network: goes on/],
  [/^npm run up -- --stack prod --yes$/, 0, /^a second time; (?:prod-[a-z-]+: same \d+(?:; )?){3}$/],
  [/^pulumi destroy --stack prod-network$/, 0, /; 0 resources of Azure left$/],
  [/preview-stack up /, 0, /./],
  [/preview-stack status /, 0, /./],
  [/preview-stack sweep/, 0, /./],
  [/preview-stack down /, 0, /./],
  [/^npm run environment /, 0, /./],
  [/^npm run synth /, 0, /./],
  [/^npm run controller -- fetch/, 0, /./],
])('the last run has %s with exit status %i and %s', (command, status, outcome) => {
  const found = rows.filter(
    (row) => command.test(row.command) && row.status === status && outcome.test(row.outcome),
  )

  expect(found.length).toBeGreaterThan(0)
})

test('the counts on the page equal the counts of the committed plan', () => {
  const plan = JSON.parse(readFileSync(join(ROOT, 'plans/dev.json'), 'utf8')) as Plan
  const { pulumi } = reviewPlan(plan).counts
  const withPack = rows.filter(
    ({ command, status }) =>
      /^pulumi (?:preview|up) .*--policy-pack policies\/stack$/.test(command) && status === 0,
  )

  expect(
    withPack.slice(0, 3).map(({ outcome }) => outcome),
    'npm run test:pulumi -- --record',
  ).toEqual([`${pulumi} to create`, `${pulumi} created`, `${pulumi} unchanged`])
})

test('the recordings contain no paths of the machine and come from one CLI version', () => {
  const recorded = RECORDINGS.map((name) => readRecording(name))
  const texts = [page, JSON.stringify(recorded), JSON.stringify(readAnswers())]
  const versions = [...recorded.map(({ cli }) => cli), recordedSoFar()?.cli].map((cli) =>
    cli?.replace(/^v/, ''),
  )

  for (const text of texts) expect(text).not.toMatch(/\/(?:tmp|home|root|work|Users)\//)
  expect(new Set(versions)).toEqual(new Set([/Pulumi CLI \| (\S+) /.exec(page)?.[1]]))
})
