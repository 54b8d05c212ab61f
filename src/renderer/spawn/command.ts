/** What a typed line runs: its words, or a shell where only a shell could know what is meant. */
export function commandOf(line: string): readonly string[] {
  const text = line.trim()
  if (text === '') return []
  return wordsOf(text) ?? ['sh', '-c', text]
}

const shellOnly = /[|&;<>()$`*?[\]{}~#!\n]/

/** Words with plain quoting; null when the line uses more of a shell than that. */
function wordsOf(text: string): string[] | null {
  const words: string[] = []
  let word: string | null = null
  for (let at = 0; at < text.length; at++) {
    const character = text.charAt(at)
    if (character === "'" || character === '"') {
      const end = text.indexOf(character, at + 1)
      if (end === -1) return null
      const inner = text.slice(at + 1, end)
      if (character === '"' && /[$`\\]/.test(inner)) return null
      word = (word ?? '') + inner
      at = end
    } else if (character === '\\') return null
    else if (/\s/.test(character)) {
      if (character === '\n') return null
      if (word !== null) words.push(word)
      word = null
    } else if (shellOnly.test(character)) return null
    else word = (word ?? '') + character
  }
  if (word !== null) words.push(word)
  // `NAME=value command` is a shell's way to set a variable.
  return words[0] !== undefined && /^[A-Za-z_]\w*=/.test(words[0]) ? null : words
}
