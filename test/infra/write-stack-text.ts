import { Document } from 'yaml'
import { quoted, STYLE } from '../../infra/stack-file.ts'

/** Serializes content to a stack file in which every parser reads a string as a string. */
export const writeStackText = (content: unknown): string => quoted(new Document(content)).toString(STYLE)
