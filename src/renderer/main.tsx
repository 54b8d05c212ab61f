import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { openChannel } from './client/channels.ts'
import { Connection } from './client/connection.ts'
import { ClientProvider } from './client/context.tsx'
import './design/base.css'
import { applyTheme } from './design/theme.ts'
import { Window } from './shell/Window.tsx'

applyTheme()
const root = document.getElementById('root')
if (root === null) throw new Error('the page has no place for the window')
createRoot(root).render(
  <StrictMode>
    <ClientProvider connection={new Connection(openChannel)}>
      <Window />
    </ClientProvider>
  </StrictMode>,
)
