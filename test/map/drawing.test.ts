import { describe, expect, it } from 'vitest'
import type { Environment } from '../../charts-src/environment/schema.ts'
import { type Drawing, drawMap } from '../../charts-src/map/draw-map.ts'
import { type Box, overlap, WIDTH } from '../../charts-src/map/map-layout.ts'
import { type MapModel, mapModel } from '../../charts-src/map/map-model.ts'
import { mapSvg } from '../../charts-src/map/map-svg.ts'
import { anEnvironment, appsOf, ENVIRONMENTS, type Loose } from '../charts/fixture.ts'

const modelOf = (environment: Environment): MapModel =>
  mapModel(
    appsOf(environment).flatMap(({ objects }) => [...objects]),
    environment,
  )

/** The longest name that a branch can give to a slice. */
function aLongSlice(): Environment {
  const environment = structuredClone(anEnvironment('pr-example')) as Loose
  environment['slice'].slug = 'abcdefghijklmnopqrst-50d858'
  return environment as Environment
}

const PICTURES: readonly (readonly [string, Environment])[] = [
  ...ENVIRONMENTS.map((name) => [name, anEnvironment(name)] as const),
  ['a slice with the longest name', aLongSlice()],
]

const isWithin = (box: Box, frame: Box) =>
  box.x >= frame.x &&
  box.y >= frame.y &&
  box.x + box.width <= frame.x + frame.width &&
  box.y + box.height <= frame.y + frame.height

/** What nobody could read, in words. */
function faultsOf({ words, labels, shapes, height }: Drawing): string[] {
  const page = { x: 0, y: 0, width: WIDTH, height }
  const actors = shapes.filter(({ style }) => style !== 'room')
  const pairs = words.flatMap((one, index) => words.slice(index + 1).map((other) => [one, other] as const))
  return [
    ...pairs.filter(([a, b]) => overlap(a.box, b.box)).map(([a, b]) => `${a.text} is on ${b.text}`),
    ...words.filter(({ box, frame }) => !isWithin(box, frame)).map(({ text }) => `${text} is cut`),
    ...words.filter(({ frame }) => !isWithin(frame, page)).map(({ text }) => `${text} is off the page`),
    ...labels
      .filter(({ box }) => actors.some((actor) => overlap(actor.box, box)))
      .map(({ box }) => `a label at ${box.x} is on a box`),
    ...actors.flatMap(({ box }, index) =>
      actors
        .slice(index + 1)
        .filter((other) => overlap(box, other.box))
        .map(() => `boxes at ${box.x}, ${box.y} overlap`),
    ),
  ]
}

describe('the drawing', () => {
  it.each(PICTURES)('of %s has no words on other words or boxes, and none that are cut', (_, environment) => {
    const drawing = drawMap(modelOf(environment))

    expect(drawing.words.length).toBeGreaterThan(40)
    expect(drawing.labels.length).toBeGreaterThan(8)
    expect(faultsOf(drawing)).toEqual([])
  })

  it('reports words that overlap, are cut, or are off the page', () => {
    const drawing = drawMap(modelOf(anEnvironment('prod')))
    const [first, second] = drawing.words
    const [label] = drawing.labels
    const [box] = drawing.shapes.filter(({ style }) => style === 'sandbox')
    if (!first || !second || !label || !box) throw new Error('the drawing is empty')

    expect(faultsOf({ ...drawing, words: [first, { ...second, box: first.box }] })).toHaveLength(1)
    expect(faultsOf({ ...drawing, words: [{ ...first, box: { ...first.box, width: 5000 } }] })).toHaveLength(
      1,
    )
    expect(faultsOf({ ...drawing, height: 100 }).length).toBeGreaterThan(0)
    expect(faultsOf({ ...drawing, labels: [{ ...label, box: box.box }] })).toHaveLength(1)
  })

  it('is the same bytes each time', () => {
    expect(mapSvg(modelOf(anEnvironment('dev')))).toBe(mapSvg(modelOf(anEnvironment('dev'))))
  })

  it('names the namespaces of its environment', () => {
    const texts = (name: 'dev' | 'pr-example') =>
      drawMap(modelOf(anEnvironment(name))).words.map(({ text }) => text)

    expect(texts('dev')).toContain('namespace agentweaver')
    expect(texts('dev')).toContain('namespace agentweaver-sandboxes')
    expect(texts('pr-example')).toContain('namespace aw-pr-example-50d858')
  })

  it('has no markup that a name brings along', () => {
    const model = modelOf(anEnvironment('prod'))
    const names = new Map([['agent', ['<script>&"</text>:443']]] as const)

    const svg = mapSvg({ ...model, names, environment: '</title><script>' })

    expect(svg).not.toContain('<script')
    expect(svg).toContain('&lt;script&gt;&amp;')
  })

  it('has colours for light and for dark pages, for everything that it draws', () => {
    const svg = mapSvg(modelOf(anEnvironment('prod')))
    const [light = '', dark = ''] = svg.split('@media (prefers-color-scheme: dark)')
    const drawn = ['ground', 'label', 'room', 'box', 'ours', 'sandbox', 'list', 'line', 'tip']

    expect(drawn.filter((style) => !light.includes(`.${style} `) && !light.includes(`.${style},`))).toEqual(
      [],
    )
    expect(drawn.filter((style) => !dark.includes(`.${style} `) && !dark.includes(`.${style},`))).toEqual([])
  })
})
