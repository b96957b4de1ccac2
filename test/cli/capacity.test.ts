import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { environmentText, ROOT } from '../charts/fixture.ts'
import { aFolder, runCli } from './run-cli.ts'

const inClone = { cwd: ROOT }

test('says how many sandboxes fit and what binds first', async () => {
  const { stdout, status } = await runCli(['capacity', '--env', 'prod'], inClone)

  expect(stdout).toContain('prod: 80 sandboxes of class agent at once, beside the warm pools')
  expect(stdout).toMatch(/80 +quota of claims \(binds first\) +sizes\.sandboxes\.quota\.claims/)
  expect(stdout).toContain('Give --arrivals for a recommended number of warm sandboxes.')
  expect(status).toBe(0)
})

test('recommends a warm size for what arrives, and shows that a played pool agrees', async () => {
  const options = ['--arrivals', '20', '--start-seconds', '30', '--hit-ratio', '0.99']

  const { stdout } = await runCli(['capacity', '--env', 'prod', ...options, '--json'], inClone)

  const { demand, advice, fits } = JSON.parse(stdout)
  expect(demand).toEqual({ arrivalsPerMinute: 20, startSeconds: 30, target: 0.99 })
  expect(fits).toHaveLength(2)
  for (const { recommended, recommendedHitRatio, simulated } of advice) {
    expect(recommended).toBe(19)
    expect(Math.abs(simulated.fixed - recommendedHitRatio)).toBeLessThan(0.005)
    expect(Math.abs(simulated.exponential - recommendedHitRatio)).toBeLessThan(0.005)
  }
})

test('takes the path of a file, and changes its answer with each option', async () => {
  const folder = await aFolder('aw-capacity-')
  writeFileSync(join(folder, 'dev.json'), environmentText('dev'))
  const recommended = async (...options: string[]) => {
    const { stdout } = await runCli(['capacity', '--env', 'dev.json', '--json', ...options], { cwd: folder })
    return JSON.parse(stdout).advice?.[0]?.recommended
  }

  expect(await recommended()).toBeUndefined()
  expect(await recommended('--arrivals', '4')).toBe(7)
  expect(await recommended('--arrivals', '8')).toBe(10)
  expect(await recommended('--arrivals', '4', '--start-seconds', '60')).toBe(10)
  expect(await recommended('--arrivals', '4', '--hit-ratio', '0.9')).toBe(5)
})

test.each([
  [['--env', 'absent'], 'There is no'],
  [[], '--env'],
  [['--env', 'dev', '--hit-ratio', '1'], '--hit-ratio'],
  [['--env', 'dev', '--arrivals', '-1'], '--arrivals'],
  [['--env', 'dev', '--arrivals', '100000'], 'sandboxes would be starting at any time'],
])('refuses %j in words', async (options, message) => {
  const { stderr, status } = await runCli(['capacity', ...options], inClone)

  expect(stderr).toContain(message)
  expect(status).toBe(2)
})

test('tells every mistake of the file', async () => {
  const folder = await aFolder('aw-capacity-')
  writeFileSync(
    join(folder, 'dev.json'),
    environmentText('dev').replace('"kata"', '"docker"').replace('"fqdn"', '"open"'),
  )

  const { stderr, status } = await runCli(['capacity', '--env', 'dev.json'], { cwd: folder })

  expect(stderr).toContain('isolation: ')
  expect(stderr).toContain('egress.mode: ')
  expect(status).toBe(2)
})
