// The fonts of the reader's machine: the pages load none.
import { useRoute } from 'vitepress';
import theme from 'vitepress/theme-without-fonts';
import { nextTick, onMounted, watch } from 'vue';
// oxlint-disable-next-line import/no-unassigned-import -- a style sheet has no name
import './style.css';

/** The list of pages, which is longer than the window, shows where the reader is. */
async function showActive() {
  await nextTick();
  const list = document.querySelector('.VPSidebar');
  const item = document.querySelector('.VPSidebarItem.is-link.is-active > .item');
  if (list && item) list.scrollTop += item.getBoundingClientRect().top - innerHeight / 2;
}

export default {
  ...theme,
  setup() {
    const route = useRoute();
    onMounted(showActive);
    watch(() => String(route.path), showActive);
  },
};
