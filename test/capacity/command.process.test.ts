import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { environmentText, ROOT } from '../charts/fixture.ts'
import { aFolder, runCli } from '../cli/run-cli.ts'

const page = () => readFile(join(ROOT, 'docs/capacity.md'), 'utf8')
const capacity = (...argv: string[]) => runCli(['capacity', ...argv], { cwd: ROOT })

describe('agentweaver capacity', () => {
  test('prints the report in docs/capacity.md', async () => {
    const text = await page()
    const [, line = ''] = /```sh\nnpx agentweaver (.*)\n```/.exec(text) ?? []
    const [, shown] = /<!-- generated: report -->\n```\n([\s\S]*?)```\n<!-- end -->/.exec(text) ?? []

    const { status, stdout, stderr } = await runCli(line.split(' '), { cwd: ROOT })

    expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
    expect(stdout).toBe(shown)
  })

  test('prints one JSON object with the same results', async () => {
    const { status, stdout } = await capacity(
      '--env',
      'prod',
      '--json',
      '--arrivals',
      '120',
      '--duration',
      '30',
    )

    const report = JSON.parse(stdout)

    expect(status).toBe(0)
    expect(report).toMatchObject({
      environment: 'prod',
      classes: [{ kind: 'agent' }, { kind: 'command' }],
      demand: { kind: 'agent', replenishSeconds: 90, targetHitRatio: 0.99, dispersion: 1 },
      warm: { starting: 3, recommended: 9 },
      busy: { mean: 60, most: 85, fits: true },
    })
  })

  test('reports arrivals that do not fit', async () => {
    const demand = ['--env', 'prod', '--arrivals', '240', '--duration', '30']

    const { stdout } = await capacity(...demand)
    const { busy } = JSON.parse((await capacity(...demand, '--json')).stdout)

    expect(busy).toMatchObject({ mean: 120, fits: false })
    expect(stdout).toMatch(/: they do not fit\.\n$/)
  })

  test('uses each option', async () => {
    const ask = async (...argv: string[]) => {
      const { stdout } = await capacity('--env', 'prod', '--json', '--arrivals', '120', ...argv)
      return JSON.parse(stdout).warm
    }

    const plain = await ask()

    expect((await ask('--hit-ratio', '0.5')).recommended).toBeLessThan(plain.recommended)
    expect((await ask('--dispersion', '5')).recommended).toBeGreaterThan(plain.recommended)
    expect((await ask('--replenish-seconds', '20')).recommended).toBeLessThan(plain.recommended)
    expect((await ask('--class', 'command')).configured).not.toBe(plain.configured)
  })

  test('accepts the path of any file', async () => {
    const folder = await aFolder('aw-capacity-')
    await writeFile(join(folder, 'dev.json'), environmentText('dev'))

    const { status, stdout } = await runCli(['capacity', '--env', './dev.json'], { cwd: folder })

    expect(status).toBe(0)
    expect(stdout).toMatch(/^dev {2}isolation kata/)
    expect(stdout).toContain('Add --arrivals to get a recommended number')
  })
})

describe('agentweaver capacity exits with status 2 for', () => {
  test.each([
    [['--env', 'nowhere'], 'environments/nowhere.json', 'dev, local, pr-example, prod'],
    [['--env', './environments'], 'cannot be read (EISDIR)', '--env'],
    [['--env', 'prod', '--arrivals', '-1'], '--arrivals', ''],
    [['--env', 'prod', '--arrivals', '0'], '--arrivals', ''],
    [['--env', 'prod', '--arrivals', 'NaN'], '--arrivals', ''],
    [['--env', 'prod', '--arrivals', '1e999'], '--arrivals', ''],
    [['--env', 'prod', '--arrivals', '9', '--hit-ratio', '1'], '--hit-ratio', ''],
    [['--env', 'prod', '--arrivals', '9', '--dispersion', '0.5'], '--dispersion', ''],
    [['--env', 'prod', '--arrivals', '9', '--class', 'shell'], '--class', ''],
    [['--env', 'prod', '--arrivals', '1000000', '--duration', '10000'], 'check --arrivals', ''],
    [
      ['--env', 'prod', '--duration', '3', '--hit-ratio', '0.9'],
      '--duration, --hit-ratio',
      'without --arrivals',
    ],
    [[], '--env', ''],
  ])('%j', async (argv, said, hint) => {
    const { status, stdout, stderr } = await capacity(...argv)

    expect(stderr).toContain(said)
    expect(stderr).toContain(hint)
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' })
  })

  test('every mistake in a file, and prints file and key without control characters', async () => {
    const folder = await aFolder('aw-capacity-')
    const file = JSON.parse(environmentText('prod'))
    file.sizes.sandboxes.agent.warm.replicas = -1
    file.infra.sandboxNodes.pods = 0
    file['\u001b[31mred'] = 1
    await mkdir(join(folder, 'environments'))
    await writeFile(join(folder, 'environments/prod.json'), JSON.stringify(file))

    const { status, stderr } = await runCli(['capacity', '--env', 'prod'], { cwd: folder })

    expect(status).toBe(2)
    expect(stderr).toContain('environments/prod.json: sizes.sandboxes.agent.warm.replicas: ')
    expect(stderr).toContain('environments/prod.json: infra.sandboxNodes.pods: ')
    expect(stderr).not.toContain('\u001b[31mred')
  })
})
