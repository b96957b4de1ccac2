import { spawnSync } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { serviceAlerts } from '../../contracts/service-alerts.ts'
import { platformAlerts } from '../../infra/model/alerts.ts'
import { ALERT_CASES, type AlertCase } from './alert-cases.ts'

const promtool = (...args: string[]) => spawnSync('promtool', args, { encoding: 'utf8' })
const missing = promtool('--version').status === 0 ? undefined : 'promtool is not installed'

const RULES = platformAlerts('proxy').map(({ alert, expr, forMinutes, severity, annotations }) => ({
  ...{ alert, expr, annotations },
  for: `${forMinutes}m`,
  labels: { severity },
}))

it('has a case for each alert about faults of the service', () => {
  const names = serviceAlerts({ namespace: 'agentweaver', logs: 'logs' }).map(({ alert }) => alert)

  expect(ALERT_CASES.map(({ alert }) => alert)).toEqual(names)
})

/** A file for `promtool test rules`. JSON is YAML. */
function testOf({ alert, fault, normal, labels = {}, after }: AlertCase, isFault: boolean) {
  const rule = RULES.find((candidate) => candidate.alert === alert)
  const filled = Object.entries(rule?.annotations ?? {}).map(([name, text]) => [
    name,
    text.replaceAll(/\{\{ \$labels\.(\w+) \}\}/g, (_, label) => labels[label] ?? ''),
  ])
  const expected = {
    exp_labels: { ...rule?.labels, ...labels },
    exp_annotations: Object.fromEntries(filled),
  }
  return {
    interval: '30s',
    input_series: (isFault ? fault : normal).map(({ metric, labels: own, values }) => ({
      series: `${metric}{${own}}`,
      values,
    })),
    alert_rule_test: [{ eval_time: after, alertname: alert, exp_alerts: isFault ? [expected] : [] }],
  }
}

describe.skipIf(missing !== undefined)(
  `alert rules in promtool${missing ? ` (skipped: ${missing})` : ''}`,
  () => {
    let folder: string
    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), 'aw-rules-'))
      const groups = [{ name: 'agentweaver', rules: RULES }]
      await writeFile(join(folder, 'rules.yaml'), JSON.stringify({ groups }))
    })
    afterAll(() => rm(folder, { recursive: true }))

    it('are valid', () => {
      const { status, stdout, stderr } = promtool('check', 'rules', join(folder, 'rules.yaml'))

      expect(status, stderr).toBe(0)
      expect(stdout).toContain(`${RULES.length} rules found`)
    })

    it.each([
      ['fire in their fault', true],
      ['do not fire in normal operation', false],
    ] as const)('%s', async (name, isFault) => {
      const file = join(folder, `${isFault}.yaml`)
      const tests = ALERT_CASES.map((one) => testOf(one, isFault))
      await writeFile(file, JSON.stringify({ rule_files: ['rules.yaml'], evaluation_interval: '30s', tests }))

      const { status, stdout, stderr } = promtool('test', 'rules', file)

      expect(status, `${name}\n${stdout}${stderr}`).toBe(0)
    })
  },
)
