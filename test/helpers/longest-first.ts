import { BaseSequencer, type TestSpecification } from 'vitest/node'

/**
 * Files that take long although they are short. Without the times of an earlier run vitest starts the largest files first,
 * and would start these last, when no other file is left for the second processor.
 */
const LONG = /\.long\.\w+\.test\.ts$|\/(?:bwrap\.process|demo\.process|postgres\.database)\.test\.ts$/

/** Starts the files that take longest before all others. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    const isLong = ({ moduleId }: TestSpecification) => LONG.test(moduleId)
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))]
  }
}
