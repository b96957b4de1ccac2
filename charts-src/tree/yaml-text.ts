import { stringify } from 'yaml'

const RENDERED =
  '# Rendered by `npm run synth`. Edit charts-src/, policies/ or environments/ instead: this file is overwritten.\n'

/** Renders one spelling per value: no folding, no anchors, no dependence on the machine. */
export function yamlText(value: unknown): string {
  return RENDERED + stringify(value, { lineWidth: 0, aliasDuplicateObjects: false, indentSeq: false })
}
