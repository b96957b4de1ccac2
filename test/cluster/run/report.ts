import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Reporter, TestModule } from 'vitest/node'
import { type FileResult, lineOf, resultOf } from '../../ci/run-files.ts'

/** Environment variable with the path of the file that the report is written to. */
export const REPORT_FILE = 'AGENTWEAVER_CLUSTER_REPORT'

export interface FileReport extends FileResult {
  readonly ms: number
  /** `test: reason` for each test that exceeded its time and passed in a second measurement. */
  readonly repeated: readonly string[]
}

/** What a project leaves behind: its files, and how many errors belong to none of them. */
export interface ProjectReport {
  readonly files: readonly FileReport[]
  readonly strays: number
}

const ROOT = join(import.meta.dirname, '..', '..', '..')

function reportOf(module: TestModule): FileReport {
  const repeated = [...module.children.allTests('passed')].flatMap((test) => {
    const [error] = test.result().errors ?? []
    return error ? [lineOf(test.fullName, error.message)] : []
  })
  return { ...resultOf(ROOT, module), ms: module.diagnostic().duration, repeated }
}

/** A reporter of vitest. Its own JSON reporter omits the errors of hooks in `describe` blocks. */
// biome-ignore lint/style/noDefaultExport: vitest loads a reporter from the default export
export default class ProjectReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): void {
    const file = process.env[REPORT_FILE]
    if (!file) throw new Error(`${REPORT_FILE} is not set`)
    const report: ProjectReport = { files: modules.map(reportOf), strays: errors.length }
    writeFileSync(file, JSON.stringify(report))
  }
}
