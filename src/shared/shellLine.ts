const plainWord = /^[A-Za-z0-9_@%+=:,./-]+$/
const quoted = (word: string) => (plainWord.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`)

/** A command as a line one could paste into a terminal. */
export const shellLine = (words: readonly string[]): string => words.map(quoted).join(' ')
