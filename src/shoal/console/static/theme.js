// Before anything is painted: the theme that was chosen here before. Without a choice the system's counts.
(() => {
  const chosen = localStorage.getItem("shoal-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
