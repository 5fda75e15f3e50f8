// The fonts of the reader's machine: the pages load none.
import theme from 'vitepress/theme-without-fonts';
// oxlint-disable-next-line import/no-unassigned-import -- a style sheet has no name
import './style.css';

export default theme;
