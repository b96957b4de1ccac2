import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { load, YAML11_SCHEMA } from 'js-yaml'

/** A reader unrelated to the `yaml` package, by the rules of YAML 1.1. */
export const byYaml11 = (text: string): unknown => load(text, { schema: YAML11_SCHEMA })

const PROGRAM = `package main

import (
	"encoding/json"
	"os"

	"gopkg.in/yaml.v3"
)

func main() {
	var texts []string
	if err := json.NewDecoder(os.Stdin).Decode(&texts); err != nil {
		panic(err)
	}
	values := make([]any, len(texts))
	for i, text := range texts {
		if err := yaml.Unmarshal([]byte(text), &values[i]); err != nil {
			values[i] = map[string]any{"error": err.Error()}
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(values); err != nil {
		panic(err)
	}
}
`
const MODULE = 'module reader\n\ngo 1.21\n\nrequire gopkg.in/yaml.v3 v3.0.1\n'
const SUMS = [
  'gopkg.in/check.v1 v0.0.0-20161208181325-20d25e280405 h1:yhCVgyC4o1eVCa2tZl7eS0r+SDo693bJlVdllGtEeKM=',
  'gopkg.in/check.v1 v0.0.0-20161208181325-20d25e280405/go.mod h1:Co6ibVJAznAaIkqp8huTwlJQCZ016jof/cbN4VW5Yz0=',
  'gopkg.in/yaml.v3 v3.0.1 h1:fxVm/GzAzEWqLHuvctI91KS9hhNmmWOoWu0XTYJS7CA=',
  'gopkg.in/yaml.v3 v3.0.1/go.mod h1:K4uyk7z7BCEPqu6E+C64Yfv1cQ7kz7rIZviUmN+EgEM=',
]

export type GoReader =
  | { readonly read: (texts: readonly string[]) => unknown[] }
  | { readonly absent: string }

/** Builds the reader that Pulumi's own command has (`gopkg.in/yaml.v3`), where Go and the module are at hand. */
export function buildGoReader(): GoReader & Disposable {
  const folder = mkdtempSync(join(tmpdir(), 'go-yaml-'))
  const remove = { [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }) }
  writeFileSync(join(folder, 'main.go'), PROGRAM)
  writeFileSync(join(folder, 'go.mod'), MODULE)
  writeFileSync(join(folder, 'go.sum'), `${SUMS.join('\n')}\n`)
  const go = (...args: string[]) =>
    spawnSync('go', args, {
      cwd: folder,
      encoding: 'utf8',
      timeout: 120_000,
      env: { ...process.env, GOTOOLCHAIN: 'local', GOFLAGS: '-mod=readonly -buildvcs=false', GOWORK: 'off' },
    })
  const found = go('version')
  if (found.error !== undefined) return { ...remove, absent: 'no go on PATH' }
  const downloaded = go('mod', 'download', 'gopkg.in/yaml.v3')
  if (downloaded.status !== 0) return { ...remove, absent: 'gopkg.in/yaml.v3 cannot be downloaded' }
  const built = go('build', '-o', 'reader', '.')
  if (built.status !== 0) throw new Error(`the Go reader does not build: ${built.stderr}`)
  return {
    ...remove,
    read(texts) {
      const ran = spawnSync(join(folder, 'reader'), {
        input: JSON.stringify(texts),
        encoding: 'utf8',
        maxBuffer: 2 ** 28,
      })
      if (ran.status !== 0) throw new Error(`the Go reader failed: ${ran.stderr}`)
      return JSON.parse(ran.stdout) as unknown[]
    },
  }
}
