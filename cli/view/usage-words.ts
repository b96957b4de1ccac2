import type { WorkspaceUsage } from '../../contracts/exec.ts'
import { sizeWords } from '../upload/size-words.ts'

const number = (value: number) => value.toLocaleString('en')

/** For example: `commands have written 8.5 GiB of 10.0 GiB (85 %).` The limit that is closer counts. */
export function usageWords({ level, bytes, files, maxBytes, maxFiles, isComplete }: WorkspaceUsage): string {
  const [byBytes, byFiles] = [bytes / maxBytes, files / maxFiles]
  const amount =
    byBytes >= byFiles
      ? `${sizeWords(bytes)} of ${sizeWords(maxBytes)}`
      : `${number(files)} of ${number(maxFiles)} files`
  const percent = `${Math.floor(100 * Math.max(byBytes, byFiles))} %`
  const how = isComplete ? '' : '; not all files could be counted, so this is the growth of the file system'
  return `${level === 0 ? 'there is room again: ' : ''}commands have written ${amount} (${percent}${how}).`
}
