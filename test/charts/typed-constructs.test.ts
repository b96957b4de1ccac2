import type { Chart } from 'cdk8s'
import { describe, expect, it } from 'vitest'
import { SandboxPool } from '../../charts-src/constructs/sandbox-pool.ts'
import { CiliumNetworkPolicy } from '../../charts-src/imports/cilium.js'
import { KubeDeployment, KubeValidatingAdmissionPolicy, type PodSpec } from '../../charts-src/imports/k8s.js'
import { addNetworkPolicy } from '../../charts-src/network/policy-objects.ts'
import { chartObjects } from '../../charts-src/tree/chart-objects.ts'

/**
 * `npm run check` fails when a line below `@ts-expect-error` compiles. The test shows what the compiler prevents: cdk8s
 * renders the object without the misspelt field and reports nothing.
 */
describe('a misspelt field', () => {
  it.each<[string, (chart: Chart) => void]>([
    [
      'of a pod',
      (chart) => {
        const spec: PodSpec = {
          containers: [],
          // @ts-expect-error
          automountServiceAccountTokn: false,
        }
        const metadata = { labels: {} }
        new KubeDeployment(chart, 'x', { spec: { selector: {}, template: { metadata, spec } } })
      },
    ],
    [
      'of a sandbox pod',
      (chart) =>
        new SandboxPool(chart, 'x', {
          name: 'x',
          namespace: 'x',
          podLabels: {},
          podSpec: {
            containers: [
              {
                name: 'x',
                securityContext: {
                  // @ts-expect-error
                  readOnlyRootFilesytem: true,
                },
              },
            ],
          },
        }),
    ],
    [
      'of an admission policy',
      (chart) =>
        new KubeValidatingAdmissionPolicy(chart, 'x', {
          spec: {
            // @ts-expect-error
            failurPolicy: 'Fail',
          },
        }),
    ],
    [
      'of a network policy',
      (chart) =>
        addNetworkPolicy(
          chart,
          { slice: { kind: 'base' }, namespace: 'x', name: 'x' },
          {
            podSelector: {},
            // @ts-expect-error
            ingres: [],
          },
        ),
    ],
    [
      'of a Cilium policy',
      (chart) =>
        new CiliumNetworkPolicy(chart, 'x', {
          metadata: { name: 'x' },
          spec: {
            // @ts-expect-error
            egresDeny: [],
          },
        }),
    ],
  ])('%s does not compile, because it would not be rendered', (_, add) => {
    const text = JSON.stringify(chartObjects((chart) => void add(chart)))

    expect(text).not.toMatch(/Tokn|Filesytem|failurPolicy|ingres"|egresDeny/)
    expect(text).toContain('"kind":')
  })

  it('is an error of its value too', () => {
    const objects = chartObjects((chart) => {
      new CiliumNetworkPolicy(chart, 'x', {
        metadata: { name: 'x' },
        spec: {
          egressDeny: [
            {
              // @ts-expect-error
              toEntities: ['kube-apisrver'],
            },
          ],
        },
      })
    })

    expect(JSON.stringify(objects)).toContain('kube-apisrver')
  })
})
