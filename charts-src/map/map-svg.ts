import type { Curve } from './arrows.ts'
import { type Drawing, drawMap, type Shape } from './draw-map.ts'
import { WIDTH } from './map-layout.ts'
import type { MapModel } from './map-model.ts'
import { STYLES, type Words } from './words.ts'

const FONT = "Inter, 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif"

/** Returns the picture as SVG text. The output is deterministic and follows the light or dark theme of the page. */
export function mapSvg(model: MapModel): string {
  const { title, height, shapes, arrows, labels, words }: Drawing = drawMap(model)
  return `${[
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" font-family="${FONT}" role="img" aria-labelledby="title">`,
    `<title id="title">${escaped(title)}</title>`,
    STYLE,
    `<rect class="ground" width="${WIDTH}" height="${height}"/>`,
    ...shapes.map(rect),
    ...arrows.map((curve) => `<path class="line" d="${pathOf(curve)}"/>`),
    ...labels.map(rect),
    ...words.map(text),
    '</svg>',
  ].join('\n')}\n`
}

const STYLE = `<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path class="tip" d="M0 0 8 4 0 8Z"/></marker>
<style>
.ground, .label { fill: #ffffff }
.room { fill: #f8fafc; stroke: #cbd5e1 }
.box { fill: #ffffff; stroke: #94a3b8 }
.ours { fill: #eff6ff; stroke: #60a5fa }
.sandbox { fill: #fff7ed; stroke: #fb923c; stroke-dasharray: 7 4 }
.list { fill: #f0fdf4; stroke: #4ade80 }
.line { fill: none; stroke: #475569; stroke-width: 1.4; marker-end: url(#tip) }
.tip { fill: #475569 }
text { fill: #0f172a; white-space: pre }
.say { fill: #475569 }
.head, .name { font-weight: 600 }
${Object.entries(STYLES)
  .map(([style, { size }]) => `.${style} { font-size: ${size}px }`)
  .join('\n')}
@media (prefers-color-scheme: dark) {
.ground, .label { fill: #0d1117 }
.room { fill: #161b22; stroke: #30363d }
.box { fill: #0d1117; stroke: #6e7681 }
.ours { fill: #0c2240; stroke: #388bfd }
.sandbox { fill: #2d1a08; stroke: #db6d28 }
.list { fill: #0b2315; stroke: #2ea043 }
.line { stroke: #9da7b3 }
.tip { fill: #9da7b3 }
text { fill: #f0f6fc }
.say { fill: #b1bac4 }
}
</style></defs>`

function rect({ box, style }: Shape): string {
  const radius = style === 'label' ? 3 : 8
  return `<rect class="${style}" x="${round(box.x)}" y="${round(box.y)}" width="${round(box.width)}" height="${round(box.height)}" rx="${radius}"/>`
}

/** The baseline is about one letter height below the top of the box. */
const text = ({ text: words, style, box }: Words) =>
  `<text class="${style}" x="${round(box.x)}" y="${round(box.y + STYLES[style].size)}">${escaped(words)}</text>`

function pathOf([start, ...others]: Curve): string {
  const point = ([x, y]: Curve[number]) => `${round(x)} ${round(y)}`
  return `M${point(start)} C${others.map(point).join(' ')}`
}

const round = (value: number) => Math.round(value * 10) / 10
const escaped = (words: string) =>
  words.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
